"""Sounds in the messages of a conversation."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from txexport.errors import InputError, shown
from txexport.runtime.preprocessing.message_images import decoded, source_of

PromptSounds: TypeAlias = Any  # one that an extractor reads, a list of these, or a list of such lists
KINDS = ("audio", "audio_url", "input_audio")
KEYS = ("audio", "url", "path", "base64", "audio_url", "input_audio")  # where a part has its sound


def without_sounds(messages: Any) -> tuple[Any, list[Any]]:
    """Messages whose parts of sounds are {"type": "audio", "audio": ""}, and the sounds in order.

    Templates look for either key.

    A sound is a path, bytes of a file, an array at the model's rate, a data URL, base64, or OpenAI's
    input_audio. Raises InputError for a part without one, and for a remote address.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        return messages, []
    sounds: list[Any] = []
    return [_message(one, sounds) for one in messages], sounds


def _message(message: Any, sounds: list[Any]) -> Any:
    if not isinstance(message, Mapping) or not isinstance(message.get("content"), list | tuple):
        return message
    return {**message, "content": [_part(one, sounds) for one in message["content"]]}


def _part(part: Any, sounds: list[Any]) -> Any:
    if not isinstance(part, Mapping) or part.get("type") not in KINDS:
        return part
    name = next((name for name in KEYS if part.get(name) is not None), None)
    sound = None if name is None else part[name]
    if isinstance(sound, Mapping):
        sound = sound.get("data" if name == "input_audio" else "url")
    if sound is None:
        raise InputError(f"a part of a message is {shown(part)}, expected a sound, as its path or its bytes")
    encoded = name in ("base64", "input_audio")
    sounds.append(decoded(sound, "sound") if encoded else source_of(sound, "sound"))
    return {"type": "audio", "audio": ""}
