"""Conversations as the prompt that a checkpoint's chat template makes of them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.errors import BundleError, InputError, first_line, needed_for, shown
from txexport.runtime.preprocessing.text import token_text

LINE = 300  # characters of what a template says of an error

Messages = Sequence[Mapping[str, Any]]
Tools = Sequence[Mapping[str, Any]]


def prompt(folder: Path, messages: Messages, tools: Tools | None = None) -> str:
    """The prompt for what has been said, where the model may call `tools`.

    Messages are {"role": ..., "content": ...}, tools JSON schemas of functions. Raises BundleError for a
    bundle without a template, InputError for messages that the template refuses and for tools that it does
    not read, MissingLibraryError without Jinja2.
    """
    with needed_for("a chat template"):
        from jinja2 import TemplateError

        from txexport.runtime.preprocessing.sandbox import reads, render

    def refuse(message: str) -> None:
        raise TemplateError(message)

    template, settings = _template(folder, "default" if tools is None else "tool_use")
    if tools is not None:
        tools = _mappings("tools", tools, '{"type": "function", "function": {...}}')
    given = {
        "messages": _mappings("messages", messages, '{"role": ..., "content": ...}'),
        "tools": tools,
        "documents": None,
        "add_generation_prompt": True,
    }
    tokens = {
        key: token_text(value)
        for key, value in settings.items()
        if key.endswith("_token") and value is not None
    }
    try:
        text = render(template, {"raise_exception": refuse, "strftime_now": _now}, tokens | given)
        if tools and not reads(template, "tools"):
            refuse("it reads no tools, so that the model would not know of them; leave them out")
        return text
    except TemplateError as error:
        raise InputError(f"the checkpoint's chat template refuses: {first_line(error)[:LINE]}") from None
    except Exception as error:  # whatever the template's expressions raise
        message = f"{type(error).__name__}: {first_line(error)}"[:LINE]
        raise InputError(f"the checkpoint's chat template fails: {message}") from None


def _mappings(name: str, values: Sequence[Mapping[str, Any]], expected: str) -> list[Mapping[str, Any]]:
    if not isinstance(values, Sequence) or not all(isinstance(one, Mapping) for one in values):
        raise InputError(f"{name} are no list of {expected}, but {shown(values)}")
    return list(values)


def _template(folder: Path, use: str) -> tuple[str, dict]:
    """The template, from a file of its own or the tokenizer's settings; and those settings.

    Of several by name it is the one for `use`, or else the default.
    """
    path, settings = folder / "chat_template.jinja", read_json(folder / "tokenizer_config.json", missing={})
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8"), settings
        except (OSError, ValueError) as error:
            raise BundleError(f"{path} cannot be read as text: {error}") from None
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get(use, named.get("default"))
    if not isinstance(template, str):
        raise BundleError(f"{folder} has no chat template; give a prompt as text")
    return template, settings


def _now(form: str) -> str:
    """The time of day, as the format of strftime says."""
    if len(form) > LINE:
        raise InputError(f"a format of {len(form):,} characters is no format of a time")
    return datetime.now().strftime(form)
