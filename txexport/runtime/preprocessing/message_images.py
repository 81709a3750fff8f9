"""Images in the messages of a conversation."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from txexport.errors import InputError, shown

PromptImages: TypeAlias = Any  # one that `Images` reads, a list of these, or a list of such lists
KINDS = ("image", "image_url")
VIDEOS = ("video", "video_url")
KEYS = ("image", "url", "path", "base64", "image_url")  # where a part of a message has its image
REMOTE = ("http://", "https://", "ftp://")


def without_images(messages: Any) -> tuple[Any, list[Any]]:
    """Messages whose parts of images are {"type": "image"}, as templates expect, and the images in order.

    An image is a path, bytes, a Pillow image, an array, a data URL, or base64. Raises InputError for a part
    without one, for a video, and for a remote address.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
        return messages, []
    images: list[Any] = []
    return [_message(one, images) for one in messages], images


def _message(message: Any, images: list[Any]) -> Any:
    if not isinstance(message, Mapping) or not isinstance(message.get("content"), list | tuple):
        return message
    return {**message, "content": [_part(one, images) for one in message["content"]]}


def _part(part: Any, images: list[Any]) -> Any:
    if not isinstance(part, Mapping) or part.get("type") not in (*KINDS, *VIDEOS):
        return part
    if part["type"] in VIDEOS:
        raise InputError("a part of a message is a video, which is not read; give some frames as images")
    name = next((name for name in KEYS if part.get(name) is not None), None)
    if name is None:
        raise InputError(f"a part of a message is {shown(part)}, expected an image, as its path or its bytes")
    image = part[name]
    if name == "image_url" and isinstance(image, Mapping):
        image = image.get("url")
    images.append(decoded(image) if name == "base64" else source_of(image))
    return {"type": "image"}


def source_of(image: Any, what: str = "image") -> Any:
    """An image as `Images` reads it, or what else: the bytes of a data URL, or what was given.

    Raises InputError for a remote address, and a data URL that is not base64.
    """
    if not isinstance(image, str):
        return image
    if image.startswith("data:"):
        head, _, data = image.partition(",")
        if not head.endswith(";base64"):
            raise InputError(f"{article(what)} is {shown(image)}, expected a data URL in base64")
        return decoded(data, what)
    if image.lower().startswith(REMOTE):
        raise InputError(f"{article(what)} is {shown(image)}: remote addresses are not read; fetch it first")
    return image


def article(what: str) -> str:
    """The name of a medium with its article."""
    return f"an {what}" if what == "image" else f"a {what}"


def decoded(data: Any, what: str = "image") -> bytes:
    """The bytes of an image, or what else, in base64. Raises InputError for anything else."""
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError):
        raise InputError(f"{article(what)} is not valid base64; send its bytes in base64") from None


def listed(images: PromptImages, prompts: Any, what: str = "image") -> list[list[Any]]:
    """The images or sounds of each prompt: of one text one or a list, of several a list of these or None.

    Raises InputError for another number of entries than prompts.
    """
    entries, count = ([images], 1) if isinstance(prompts, str) else (images, len(prompts))
    if not isinstance(entries, list | tuple) or len(entries) != count:
        raise InputError(
            f"{what}s are {shown(images)}, expected a list with an entry for each of {count} prompts"
        )
    return [[source_of(source, what) for source in _entry(one)] for one in entries]


def _entry(entry: Any) -> list[Any]:
    if entry is None:
        return []
    return list(entry) if isinstance(entry, list | tuple) else [entry]
