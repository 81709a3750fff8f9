"""The tokenizer's settings in other files, merged as by transformers 5."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tokenizers import AddedToken

from txexport.checkpoints.tokenizer_classes.tokenizer_file import TokenizerFile
from txexport.support.tokenizer_classes import CLASSES, SPECIAL_TOKENS

EXTRA, OLD_EXTRA = "extra_special_tokens", "additional_special_tokens"
DECODER = "added_tokens_decoder"


@dataclass
class Settings:
    """The arguments of a tokenizer's class: `values` of all files, and the tokens that they add."""

    values: dict[str, Any]
    added: dict[int, AddedToken] = field(default_factory=dict)
    named: dict[str, Any] = field(default_factory=dict)  # special tokens with names of the model's own

    def get(self, name: str, default: Any) -> Any:
        """A setting, or the class's default if no file has it."""
        return self.values.get(name, default)

    def tokens(self, kind: str) -> dict[str, Any]:
        """The special tokens by name, or the class's defaults; None if there is none."""
        defaults = CLASSES[kind].special_tokens
        return {name: self.values.get(name, defaults.get(name)) for name in SPECIAL_TOKENS}

    def extra(self, own: list | None) -> list:
        """The special tokens without a name; `own` are the class's, next to those of the older setting."""
        if EXTRA in self.values:
            return list(self.values[EXTRA] or [])
        return list((self.values.get(OLD_EXTRA) or []) if own is None else own)


def gathered(files: Mapping[str, dict], file: TokenizerFile) -> Settings:
    """The settings in tokenizer_config.json, special_tokens_map.json and added_tokens.json, by file name.

    If the first lists all added tokens, the others are not read, nor those of tokenizer.json.
    """
    values = dict(files.get("tokenizer_config.json", {}))
    values.pop("add_bos_token", None)
    values.pop("add_eos_token", None)
    if OLD_EXTRA in values and not values.get(EXTRA):
        values[EXTRA] = values.pop(OLD_EXTRA)
    named = {
        name: values.pop(name)
        for name in [*values]
        if name.endswith("_token") and name not in SPECIAL_TOKENS and isinstance(values[name], str)
    }
    if isinstance(values.get(EXTRA), dict):
        named |= values.pop(EXTRA)
    settings = Settings(values, named=named)
    if DECODER in values:
        settings.added = {int(place): AddedToken(**token) for place, token in values.pop(DECODER).items()}
    else:
        _older(settings, files, file)
    settings.values = _tokens(settings.values)
    settings.named = _tokens(settings.named)
    own = [name for name in settings.values if name.endswith("_token") and name not in SPECIAL_TOKENS]
    settings.named |= {
        name: settings.values[name] for name in own if isinstance(settings.values[name], str | AddedToken)
    }
    known = {token.content: token for token in settings.added.values()}
    for name in SPECIAL_TOKENS:
        token = settings.values.get(name)
        if token is not None:
            settings.values[name] = known.get(str(token), token)
    return settings


def _older(settings: Settings, files: Mapping[str, dict], file: TokenizerFile) -> None:
    """Read the files that tokenizer_config.json has replaced, and tokenizer.json's own tokens."""
    values = settings.values
    for name, value in files.get("special_tokens_map.json", {}).items():
        if isinstance(value, dict) and name != EXTRA:
            value = AddedToken(**{key: one for key, one in value.items() if key != "special"}, special=True)
        elif name == EXTRA and isinstance(value, list):
            before = list(values.get(EXTRA) or [])
            found = [AddedToken(**one, special=True) if isinstance(one, dict) else one for one in value]
            value = [*before, *(one for one in found if one not in before)]
        values[name] = value
    if isinstance(values.get(EXTRA), dict):
        settings.named |= values.pop(EXTRA)
    special = {str(values[name]) for name in SPECIAL_TOKENS if values.get(name)}
    special |= {str(token) for token in values.get(EXTRA) or []}
    for word, place in files.get("added_tokens.json", {}).items():
        own = word in special
        settings.added[place] = AddedToken(word, normalized=not own, special=own)
    for token in file.values.get("added_tokens", []):
        rest = {name: value for name, value in token.items() if name != "id"}
        settings.added[token["id"]] = AddedToken(**rest)


def _tokens(value: Any) -> Any:
    """JSON with AddedToken objects turned into such tokens."""
    if isinstance(value, dict):
        if value.get("__type") == "AddedToken":
            return AddedToken(**{name: one for name, one in value.items() if name != "__type"})
        return {name: _tokens(one) for name, one in value.items()}
    return [_tokens(one) for one in value] if isinstance(value, list) else value
