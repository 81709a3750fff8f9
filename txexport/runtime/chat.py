"""Conversations as the prompt that a checkpoint's chat template makes of them."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.errors import BundleError, InputError

Messages = Sequence[Mapping[str, Any]]


def prompt(folder: Path, messages: Messages, **values: Any) -> str:
    """The prompt for what has been said: messages are {"role": ..., "content": ...}.

    `values` are further ones that the template may read, such as `tools`. Raises BundleError for a bundle
    without a template, InputError for messages that the template refuses, and where Jinja2 is missing.
    """
    try:
        from jinja2 import TemplateError
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise InputError("chat templates need Jinja2; pip install 'txexport[chat]'") from None

    def refuse(message: str) -> None:
        raise TemplateError(message)

    template, settings = _template(folder)
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = _json
    environment.globals |= {"raise_exception": refuse, "strftime_now": datetime.now().strftime}
    tokens = {
        key: _text(value) for key, value in settings.items() if key.endswith("_token") and value is not None
    }
    given = {"messages": list(messages), "tools": None, "documents": None, "add_generation_prompt": True}
    try:
        return environment.from_string(template).render(**tokens | given | values)
    except TemplateError as error:
        raise InputError(f"the checkpoint's chat template refuses: {str(error).splitlines()[0]}") from None


def _template(folder: Path) -> tuple[str, dict]:
    """The template, from a file of its own or the tokenizer's settings; and those settings."""
    path, settings = folder / "chat_template.jinja", read_json(folder / "tokenizer_config.json", missing={})
    if path.is_file():
        return path.read_text(encoding="utf-8"), settings
    found = settings.get("chat_template")
    if isinstance(found, list):  # several by name
        named = {entry.get("name"): entry.get("template") for entry in found if isinstance(entry, dict)}
        found = named.get("default")
    if not isinstance(found, str):
        raise BundleError(f"{folder} has no chat template; give a prompt as text")
    return found, settings


def _text(token: Any) -> Any:
    """A special token, which files give as text or as an object."""
    return token.get("content") if isinstance(token, dict) else token


def _json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **others: Any) -> str:
    """JSON without the escapes for HTML that Jinja2's own filter makes."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **others)
