"""Prompts of conversations, by a checkpoint's chat template."""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.errors import InputError, first_line, needed_for, shown
from txexport.runtime.preprocessing.chat_messages import Continued, mappings, messages_of, plain
from txexport.runtime.preprocessing.chat_templates import template_of, templates_of
from txexport.runtime.preprocessing.special_tokens import special_tokens

LINE = 300  # characters of a template's error message
UNREAD = "it reads no "  # the message for tools and values that a template does not read
OWN = ("messages", "tools", "add_generation_prompt")  # template values that other arguments set

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Conversation:
    """The messages of a conversation, and the options of its chat template.

    Messages are {"role": ..., "content": ...}, `tools` JSON schemas of functions that the model may call.
    `template` is the name of one of the checkpoint's templates, and `template_kwargs` are values for it. With
    `continues` the prompt ends within the last message, which the answer continues: its content, or the key
    that `continues` names, such as "reasoning_content".
    """

    messages: Messages
    tools: Tools | None = None
    template: str | None = None
    template_kwargs: Mapping[str, Any] | None = None
    continues: bool | str = False


def prompt(folder: Path, conversation: Conversation, usual: str | None = None) -> str:
    """The prompt of a conversation, by the template `usual` in place of the bundle's if that is given.

    Raises BundleError for a bundle without a template.

    Raises InputError for messages that the template rejects, and for tools and values that it does not read,
    MissingLibraryError without Jinja2.
    """
    with needed_for("a chat template"):
        from txexport.runtime.preprocessing import sandbox  # noqa: F401

    field = _continued(conversation.continues)
    tools = conversation.tools
    template = usual or _template(folder, conversation.template, tools is not None)
    if tools is not None:
        tools = mappings("tools", tools, '{"type": "function", "function": {...}}')
    messages = messages_of(conversation.messages)
    going_on = None if field is None else Continued(messages, field, template)
    if not messages:
        raise InputError("there are no messages, expected at least one")
    more = _checked({} if conversation.template_kwargs is None else conversation.template_kwargs)
    values = {
        "messages": messages if going_on is None else going_on.messages,
        "tools": tools,
        "documents": None,
        "add_generation_prompt": going_on is None,
    }
    text = _rendered(template, special_tokens(folder) | values | more, [*["tools"] * bool(tools), *more])
    return text if going_on is None else going_on.cut(text)


def template_values(folder: Path, tools: bool) -> Set[str]:
    """The names of the values that the template reads, for a conversation with or without `tools`.

    Raises BundleError for a bundle without a template, MissingLibraryError without Jinja2.
    """
    with needed_for("a chat template"):
        from txexport.runtime.preprocessing.sandbox import values_read
    return values_read(_template(folder, None, tools))


def _template(folder: Path, name: str | None, tools: bool) -> str:
    settings = read_json(folder / "tokenizer_config.json", missing={})
    return template_of(folder, settings, name, "tool_use" if tools else "default")


def check_template(folder: Path) -> None:
    """Raise BundleError for a bundle without a chat template, MissingLibraryError without Jinja2."""
    with needed_for("a chat template"):
        from txexport.runtime.preprocessing import sandbox  # noqa: F401
    _template(folder, None, False)


def _rendered(template: str, values: Mapping[str, Any], wanted: Sequence[str]) -> str:
    """Render a template. Raises InputError if it fails or does not read one of the `wanted` names."""
    from jinja2 import TemplateError

    from txexport.runtime.preprocessing.sandbox import render, values_read

    def refuse(message: str) -> None:
        raise TemplateError(message)

    try:
        read = values_read(template)
        text = render(template, {"raise_exception": refuse, "strftime_now": _now}, values)
        for name in wanted:
            if name not in read:
                refuse(_unread(name))
    except TemplateError as error:
        raise InputError(f"the checkpoint's chat template refuses: {first_line(error)[:LINE]}") from None
    except Exception as error:  # whatever the template's expressions raise
        message = f"{type(error).__name__}: {first_line(error)}"[:LINE]
        raise InputError(f"the checkpoint's chat template fails: {message}") from None
    return text


def _unread(name: str) -> str:
    if name == "tools":
        return f"{UNREAD}tools, so that the model would not know of them; leave them out"
    return f"{UNREAD}{shown(name)}, which chat_template_kwargs has; leave it out"


def unusable(folder: Path) -> Iterator[str]:
    """Yield a line with the reason for each of a folder's templates that cannot be rendered.

    Yields nothing without Jinja2, which reads them. Raises BundleError for a file that is not text.
    """
    if find_spec("jinja2") is None:
        return
    from txexport.runtime.preprocessing.sandbox import check

    for name, template in templates_of(
        folder, read_json(folder / "tokenizer_config.json", missing={})
    ).items():
        try:
            check(template)
        except Exception as error:  # any error of the compiler, such as for deep nesting
            yield f"the chat template {shown(name)} cannot be used: {first_line(error)[:LINE]}"


def _continued(value: bool | str) -> str | None:
    """The key of the text to continue, or None. Raises InputError for another type."""
    if value is True:
        return "content"
    if isinstance(value, str) and value:
        return value
    if value is not False:
        raise InputError(
            f"continue_final_message is {shown(value)}, expected True, False or the key of a message's text"
        )
    return None


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Template values by name. Raises InputError for other types and for names of other arguments."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise InputError(f"chat_template_kwargs are {shown(values)}, expected values by name")
    for name in values:
        if name in OWN:
            raise InputError(
                f"chat_template_kwargs has {shown(name)}, which another argument sets; leave it out"
            )
    if values.get("documents") is not None:
        mappings("documents", values["documents"], '{"title": ..., "text": ...}')
    return {name: plain(value) for name, value in values.items()}


def _now(form: str) -> str:
    """The current time in a strftime format."""
    if len(form) > LINE:
        raise InputError(f"a format of {len(form):,} characters is no format of a time")
    return datetime.now().strftime(form)
