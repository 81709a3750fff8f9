"""Conversations as the prompt that a checkpoint's chat template makes of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from txexport.arguments import check_flag
from txexport.bundle import read_json
from txexport.errors import InputError, first_line, needed_for, shown
from txexport.runtime.preprocessing.chat_templates import template_of
from txexport.runtime.preprocessing.text import token_text

LINE = 300  # characters of what a template says of an error
TAG = "CONTINUE_FINAL_MESSAGE_TAG "  # put behind what is to go on, to find its end in the prompt
OWN = ("messages", "tools", "add_generation_prompt")  # of a template's values, those that others say

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Conversation:
    """What has been said, and how it is put to the model.

    Messages are {"role": ..., "content": ...}, `tools` JSON schemas of functions that the model may call.
    `template` is the name of one of the checkpoint's, and `template_kwargs` are values for it. With
    `continues` the prompt ends within the last message, which the answer goes on.
    """

    messages: Messages
    tools: Tools | None = None
    template: str | None = None
    template_kwargs: Mapping[str, Any] | None = None
    continues: bool = False


def prompt(folder: Path, conversation: Conversation) -> str:
    """The prompt for what has been said. Raises BundleError for a bundle without a template.

    Raises InputError for messages that the template refuses, and for tools and values that it does not read,
    MissingLibraryError without Jinja2.
    """
    with needed_for("a chat template"):
        from jinja2 import TemplateError

        from txexport.runtime.preprocessing.sandbox import reads, render

    def refuse(message: str) -> None:
        raise TemplateError(message)

    check_flag("continue_final_message", conversation.continues)
    settings = read_json(folder / "tokenizer_config.json", missing={})
    tools = conversation.tools
    template = template_of(
        folder, settings, conversation.template, "default" if tools is None else "tool_use"
    )
    if tools is not None:
        tools = _mappings("tools", tools, '{"type": "function", "function": {...}}')
    messages = _mappings("messages", conversation.messages, '{"role": ..., "content": ...}')
    values: dict[str, Any] = {
        "messages": _tagged(messages) if conversation.continues else messages,
        "tools": tools,
        "documents": None,
        "add_generation_prompt": not conversation.continues,
    }
    tokens = {
        key: token_text(value)
        for key, value in settings.items()
        if key.endswith("_token") and value is not None
    }
    more = _checked({} if conversation.template_kwargs is None else conversation.template_kwargs)
    try:
        functions = {"raise_exception": refuse, "strftime_now": _now}
        text = render(template, functions, {**tokens, **values, **more})
        if tools and not reads(template, "tools"):
            refuse("it reads no tools, so that the model would not know of them; leave them out")
        for name in more:
            if not reads(template, name):
                refuse(f"it reads no {shown(name)}, which chat_template_kwargs has; leave it out")
    except TemplateError as error:
        raise InputError(f"the checkpoint's chat template refuses: {first_line(error)[:LINE]}") from None
    except Exception as error:  # whatever the template's expressions raise
        message = f"{type(error).__name__}: {first_line(error)}"[:LINE]
        raise InputError(f"the checkpoint's chat template fails: {message}") from None
    return _cut(text) if conversation.continues else text


def _mappings(name: str, values: Sequence[Mapping[str, Any]], expected: str) -> list[Mapping[str, Any]]:
    if not isinstance(values, Sequence) or not all(isinstance(one, Mapping) for one in values):
        raise InputError(f"{name} are no list of {expected}, but {shown(values)}")
    return list(values)


def _checked(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Values for a template by name. Raises InputError for what is not, or has an argument of its own."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise InputError(f"chat_template_kwargs are {shown(values)}, expected values by name")
    for name in values:
        if name in OWN:
            raise InputError(
                f"chat_template_kwargs has {shown(name)}, which other arguments say; leave it out"
            )
    return values


def _tagged(messages: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The messages, of which the last one's text ends with TAG. Raises InputError where it has none."""
    content = messages[-1].get("content") if messages else None
    if isinstance(content, str):
        return [*messages[:-1], {**messages[-1], "content": content + TAG}]
    blocks = list(content) if isinstance(content, Sequence) else []
    for place in reversed(range(len(blocks))):
        block = blocks[place]
        if isinstance(block, Mapping) and isinstance(block.get("text"), str):
            blocks[place] = {**block, "text": block["text"] + TAG}
            return [*messages[:-1], {**messages[-1], "content": blocks}]
    raise InputError("the last message has no text that continue_final_message could go on")


def _cut(text: str) -> str:
    """The prompt up to where the last message ends, whose spaces at its end a template may have taken."""
    place = text.rfind(TAG.strip())
    if place < 0:
        raise InputError("the checkpoint's chat template leaves out the last message, which was to go on")
    return text[:place] if text.startswith(TAG, place) else text[:place].rstrip()


def _now(form: str) -> str:
    """The time of day, as the format of strftime says."""
    if len(form) > LINE:
        raise InputError(f"a format of {len(form):,} characters is no format of a time")
    return datetime.now().strftime(form)
