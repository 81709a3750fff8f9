"""The special tokens by name that transformers knows of a checkpoint, which chat templates read."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.runtime.preprocessing.text import token_text
from txexport.support.tokenizer_classes import CLASSES, SPECIAL_TOKENS, tokenizer_class

MAP = "special_tokens_map.json"


def special_tokens(folder: Path) -> dict[str, str]:
    """Tokens by name, as "bos_token", like the property `special_tokens_map` of transformers' tokenizers.

    Those of special_tokens_map.json are taken before those of tokenizer_config.json, and not at all where the
    latter lists its added tokens; then those that the tokenizer's class has by default. A token that a file
    gives as null is none. Raises BundleError for a damaged file.
    """
    settings = read_json(folder / "tokenizer_config.json", missing={})
    named = settings
    if "added_tokens_decoder" not in settings:
        named = settings | read_json(folder / MAP, missing={})
    config = read_json(folder / "config.json", missing={})
    filler, is_byte_level = _of_tokenizer(folder / "tokenizer.json")
    values: dict[str, Any] = {} if filler is None else {"pad_token": filler}
    values |= CLASSES[tokenizer_class(settings, config, is_byte_level)].special_tokens
    values |= {name: named[name] for name in _names(named)}
    extra = named.get("extra_special_tokens")
    values |= extra if isinstance(extra, dict) else {}
    texts = {name: token_text(value) for name, value in values.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _names(named: Mapping[str, Any]) -> list[str]:
    """The keys of special tokens: the usual ones, and those of text that end so, as image_token."""
    own = [name for name in named if name.endswith("_token") and isinstance(token_text(named[name]), str)]
    return [*own, *(name for name in SPECIAL_TOKENS if name in named and name not in own)]


def _of_tokenizer(path: Path) -> tuple[str | None, bool]:
    """The token that tokenizer.json fills rows with, and whether it cuts texts into bytes."""
    if not path.is_file():
        return None, False
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, changed: int, size: int) -> tuple[str | None, bool]:
    """As `_of_tokenizer` of a file of that state, whose vocabulary may be large."""
    padding = read_json(path).get("padding")
    filler = padding.get("pad_token") if isinstance(padding, dict) else None
    return filler, '"ByteLevel"' in path.read_text(encoding="utf-8")
