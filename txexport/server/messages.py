"""Messages of chat completions as chat templates expect them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from txexport.runtime.preprocessing.chat_messages import may_lack_content
from txexport.runtime.preprocessing.message_images import decoded, source_of
from txexport.server.refusals import RefusedError, as_json, naming
from txexport.server.served import Served

ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def read_messages(served: Served, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A request's messages as `read_message`. Raises RefusedError."""
    media = _media_of(served)
    with naming((), "messages"):
        return [read_message(one, media, f"messages[{number}]") for number, one in enumerate(messages)]


def _media_of(served: Served) -> str:
    """The type of the parts of messages that a bundle reads beside text; empty for none."""
    bundle = served.model.bundle
    if not bundle.reads_media:
        return ""
    return "input_audio" if bundle.reads_sounds else "image_url"


def read_message(message: Mapping[str, Any], media: str = "", name: str = "a message") -> dict[str, Any]:
    """A message as templates expect it: its content as text, the arguments of its calls as objects.

    OpenAI's clients send arguments as JSON text, which a template would write as a quoted string. Content
    stays in parts where one is an image or a sound, of the type `media`. Raises RefusedError, which calls the
    message `name`, for a role that is not one of OpenAI's, and for content that is neither text nor parts of
    it or of that type. Content may be missing in a call.
    """
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise RefusedError(
            f"{name}.role is {as_json(role)}, expected one of {', '.join(ROLES)}", param="messages"
        )
    may_lack = content is None and may_lack_content(message)
    if not (may_lack or isinstance(content, str) or (isinstance(content, list) and content)):
        raise RefusedError(
            f"{name}.content is {as_json(content)}, expected a text, or a list of one part or more",
            param="messages",
        )
    plain = dict(message)
    if isinstance(message.get("tool_calls"), list):
        plain["tool_calls"] = [_call(one) for one in message["tool_calls"]]
    if not isinstance(content, list):
        return plain
    read = [_part(part, media) for part in content]
    if any(part["type"] != "text" for part in read):
        return plain | {"content": read}
    return plain | {"content": "".join(part["text"] for part in read)}


def _part(part: Any, media: str) -> dict[str, Any]:
    """A text, or the bytes of an image or a sound.

    Names and addresses of a client are never opened.
    """
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    kind = part.get("type") if isinstance(part, dict) else part
    if kind != media or not media:
        if kind == "text":
            text = part.get("text") if isinstance(part, dict) else None
            raise RefusedError(f"a part's text is {as_json(text)}, expected a text", param="messages")
        expected = f"text or {media}" if media else "text only"
        raise RefusedError(f"a message's part is {as_json(kind)}, expected {expected}", param="messages")
    if media == "input_audio":
        return _sound(part.get("input_audio"))
    place = part.get("image_url")
    url = place.get("url") if isinstance(place, dict) else place
    if not isinstance(url, str) or not url.startswith("data:"):
        raise RefusedError(
            f"an image_url is {as_json(url)}, expected a data URL; this server fetches nothing",
            param="messages",
        )
    return {"type": "image", "image": source_of(url)}


def _sound(place: Any) -> dict[str, Any]:
    """The bytes of an input_audio; the format is read from them."""
    data = place.get("data") if isinstance(place, dict) else place
    if not isinstance(data, str):
        raise RefusedError(
            f"an input_audio is {as_json(place)}, expected data in base64, and its format", param="messages"
        )
    return {"type": "audio", "audio": decoded(data, "sound")}


def _call(call: Any) -> Any:
    """A function call with its arguments parsed, if they are the JSON text of an object."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):  # invalid JSON of a model stays as it is
        return call
    return call | {"function": function | {"arguments": arguments}} if isinstance(arguments, dict) else call
