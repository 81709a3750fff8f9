"""A checkpoint's chat templates: one, or several by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.errors import BundleError, InputError, shown
from txexport.support.paths import CHAT_TEMPLATES

FILE, DEFAULT = "chat_template.jinja", "default"
OF_PROCESSOR, PROCESSORS = "chat_template.json", ("processor_config.json", "preprocessor_config.json")


def template_of(folder: Path, settings: Mapping[str, Any], name: str | None, use: str) -> str:
    """The template called `name`, or else the one for `use`, or else the default.

    Raises InputError for an unknown name, BundleError where no name is given and there is no default.
    """
    templates = templates_of(folder, settings)
    if name is not None and not (isinstance(name, str) and name in templates):
        known = ", ".join(map(shown, templates)) or "there are none"
        raise InputError(f"chat_template is {shown(name)}, expected the name of one of the bundle's: {known}")
    template = templates.get(name or use, templates.get(DEFAULT))
    if template is None and templates:
        known = ", ".join(map(shown, templates))
        raise BundleError(f"{folder} has no default chat template; say which with chat_template: {known}")
    if template is None:
        raise BundleError(f"{folder} has no chat template; generate takes a prompt as text")
    return template


def templates_of(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """All templates by name: the processor's, or those of files, or of the tokenizer's settings."""
    if (template := of_processor(folder)) is not None:
        return {DEFAULT: template}
    paths = {path.stem: path for path in sorted((folder / CHAT_TEMPLATES).glob("*.jinja"))}
    if (folder / FILE).is_file():
        paths[DEFAULT] = folder / FILE
    if paths:
        return {name: _read(path) for name, path in paths.items()}
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
    else:
        named = template if isinstance(template, dict) else {DEFAULT: template}
    return {k: text for k, text in named.items() if isinstance(k, str) and isinstance(text, str)}


def of_processor(folder: Path) -> str | None:
    """The template of chat_template.json, which processors of transformers prefer and tokenizers disregard.

    None without the file, and without a processor. Raises BundleError for a file without a template.
    """
    file = folder / OF_PROCESSOR
    if not file.is_file() or not any((folder / name).is_file() for name in PROCESSORS):
        return None
    template = read_json(file).get("chat_template")
    if not isinstance(template, str):
        raise BundleError(f"{file} has no text as chat_template")
    return template


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise BundleError(f"{path} cannot be read as text: {error}") from None
