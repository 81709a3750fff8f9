"""Messages as chat templates expect them: plain values, no null values, one name for reasoning.

As in `apply_chat_template` of transformers 5.23 and later.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from txexport.errors import InputError, shown

TAG = "CONTINUE_FINAL_MESSAGE_TAG "  # added to the text to continue, to find its end in the prompt
REASONING = (
    "reasoning_content",
    "thinking",
    "reasoning",
)  # what a message's reasoning is called, newest first
# Keys of a message that needs no content.
CONTENT_FREE = ("tool_calls", "function_call", *REASONING)
DEPTH = 100  # of lists within lists
EXPECTED = '{"role": ..., "content": ...}'
Message = dict[str, Any]


def messages_of(values: Any) -> list[Message]:
    """Messages as a template sees them. Raises InputError for invalid ones.

    Objects of OpenAI's client are messages too. A key whose value is None is left out, such as the content of
    a tool call; reasoning under any of its names becomes `reasoning_content` and `thinking`.
    """
    messages = mappings("messages", values, EXPECTED)
    cleaned = [{key: value for key, value in one.items() if value is not None} for one in messages]
    return [_reasoning(one) for one in cleaned]


def check_messages(values: Any) -> None:
    """Raise InputError for a message without a role, or whose content is neither a text nor a list of parts.

    A call of a function or reasoning needs no content, and the result of a tool may be an object. Templates
    would write other values as Python does, such as "None", or leave them out.
    """
    for number, message in enumerate(mappings("messages", values, EXPECTED)):
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str):
            raise InputError(f'messages[{number}].role is {shown(role)}, expected a text such as "user"')
        kinds = (str, list, tuple, dict) if role == "tool" else (str, list, tuple)
        if not isinstance(content, kinds) and not (content is None and may_lack_content(message)):
            raise InputError(
                f"messages[{number}].content is {shown(content)}, expected a text or a list of parts"
            )


def may_lack_content(message: Mapping[str, Any]) -> bool:
    """Return whether a message says something without content."""
    return any(message.get(key) is not None for key in CONTENT_FREE)


def mappings(name: str, values: Any, expected: str) -> list[Message]:
    """A list of objects as plain values. Raises InputError, which names it, for anything else."""
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        objects = [plain(one) for one in values]
        if all(isinstance(one, dict) for one in objects):
            return objects
    raise InputError(f"{name} are {shown(values)}, expected a list of {expected}")


def plain(value: Any, depth: int = 0) -> Any:
    """A value made of JSON's types alone, since a template may call the methods of any other.

    Arrays, images and the like become their type's name. Raises InputError for lists that are too deep.
    """
    if depth > DEPTH:
        raise InputError(f"the conversation has lists within lists deeper than {DEPTH}")
    if value is None or type(value) in (str, int, float, bool):
        return value
    for kind in (str, int, float):
        if isinstance(value, kind):  # of a subclass, such as an enumeration
            return getattr(kind, f"__{kind.__name__}__")(value)
    if isinstance(value, Mapping):
        return {plain(key, depth + 1): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item, depth + 1) for item in value)
    if isinstance(value, np.generic):
        return plain(value.item(), depth + 1)
    if isinstance(value, type):
        return f"<{type(value).__name__}>"
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return plain(fields, depth + 1)
    if callable(getattr(value, "model_dump", None)):
        return plain(value.model_dump(), depth + 1)
    return f"<{type(value).__name__}>"


def text_of(part: Any) -> str:
    """The text of a part of a message. Raises InputError for another part."""
    text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
    if not isinstance(text, str):
        raise InputError(f"a part of a message is {shown(part)}, expected a text or an image")
    return text


def _reasoning(message: Message) -> Message:
    """A message whose reasoning has the names that templates look for."""
    reasoning = next((message[key] for key in REASONING if message.get(key) is not None), None)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


class Continued:
    """The text of the last message that an answer continues, under the message's key `field`."""

    def __init__(self, messages: list[Message], field: str, template: str):
        """Raises InputError where there is no such text, or where the template does not read the key."""
        if not messages or messages[-1].get(field) is None:
            what = "text" if field == "content" else shown(field)
            raise InputError(f"the last message has no {what} that continue_final_message could continue")
        last = messages[-1]
        fields = (
            [name for name in REASONING if last.get(name) == last[field]] if field in REASONING else [field]
        )
        if not any(name in template for name in fields):
            raise InputError(
                f"the checkpoint's chat template reads no {shown(field)}, which was to be continued; "
                "leave out continue_final_message"
            )
        self.text, tagged = _tagged(last[field])
        self.messages = [*messages[:-1], {**last, **dict.fromkeys(fields, tagged)}]

    def cut(self, prompt: str) -> str:
        """The prompt up to the end of that text; a template may have removed spaces from its end.

        Raises InputError where the template has left the text out.
        """
        place = prompt.rfind(TAG.strip())
        if place < 0 or self.text.strip() not in prompt:
            raise InputError(
                "the checkpoint's chat template leaves out the last message, which was to be continued"
            )
        return prompt[:place] if prompt.startswith(TAG, place) else prompt[:place].rstrip()


def _tagged(content: Any) -> tuple[str, Any]:
    """The text of a content, or of its last text part, and the content with TAG after that text."""
    if isinstance(content, str):
        return content, content + TAG
    parts = list(content) if isinstance(content, list | tuple) else []
    for place in reversed(range(len(parts))):
        part = parts[place]
        if isinstance(part, dict) and "text" in part:
            if not isinstance(part["text"], str):
                break
            parts[place] = {**part, "text": part["text"] + TAG}
            return part["text"], parts
    raise InputError("the last message has no text that continue_final_message could continue")
