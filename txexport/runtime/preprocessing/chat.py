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


def prompt(folder: Path, messages: Messages, **values: Any) -> str:
    """The prompt for what has been said: messages are {"role": ..., "content": ...}.

    `values` are further ones that the template may read, such as `tools`. Raises BundleError for a bundle
    without a template, InputError for messages that the template refuses, MissingLibraryError without Jinja2.
    """
    with needed_for("a chat template"):
        from jinja2 import TemplateError

        from txexport.runtime.preprocessing.sandbox import render

    def refuse(message: str) -> None:
        raise TemplateError(message)

    template, settings = _template(folder)
    given = {"messages": _checked(messages), "tools": None, "documents": None, "add_generation_prompt": True}
    tokens = {
        key: token_text(value)
        for key, value in settings.items()
        if key.endswith("_token") and value is not None
    }
    try:
        return render(template, {"raise_exception": refuse, "strftime_now": _now}, tokens | given | values)
    except TemplateError as error:
        raise InputError(f"the checkpoint's chat template refuses: {first_line(error)[:LINE]}") from None
    except Exception as error:  # whatever the template's expressions raise
        message = f"{type(error).__name__}: {first_line(error)}"[:LINE]
        raise InputError(f"the checkpoint's chat template fails: {message}") from None


def _checked(messages: Messages) -> list[Mapping[str, Any]]:
    if not isinstance(messages, Sequence) or not all(isinstance(one, Mapping) for one in messages):
        expected = '{"role": ..., "content": ...}'
        raise InputError(f"messages are no list of {expected}, but {shown(messages)}")
    return list(messages)


def _template(folder: Path) -> tuple[str, dict]:
    """The template, from a file of its own or the tokenizer's settings; and those settings."""
    path, settings = folder / "chat_template.jinja", read_json(folder / "tokenizer_config.json", missing={})
    if path.is_file():
        try:
            return path.read_text(encoding="utf-8"), settings
        except (OSError, ValueError) as error:
            raise BundleError(f"{path} cannot be read as text: {error}") from None
    template = settings.get("chat_template")
    if isinstance(template, list):  # several by name
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    if not isinstance(template, str):
        raise BundleError(f"{folder} has no chat template; give a prompt as text")
    return template, settings


def _now(form: str) -> str:
    """The time of day, as the format of strftime says."""
    if len(form) > LINE:
        raise InputError(f"a format of {len(form):,} characters is no format of a time")
    return datetime.now().strftime(form)
