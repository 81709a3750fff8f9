"""A checkpoint's special tokens by name, as in transformers; chat templates read them."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.runtime.preprocessing.text import token_text
from txexport.support.tokenizer_classes import CLASSES, SPECIAL_TOKENS, tokenizer_class

MAP = "special_tokens_map.json"


def special_tokens(folder: Path) -> dict[str, str]:
    """Tokens by name, such as "bos_token", like `special_tokens_map` of transformers' tokenizers.

    special_tokens_map.json overrides tokenizer_config.json, and is not read where the latter lists its added
    tokens; the defaults of the tokenizer's class come last. A token that is null in a file is none. Raises
    BundleError for a damaged file.
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
    """The keys of special tokens: the usual ones, and text whose key ends in _token, such as image_token."""
    suffixed = [
        name for name in named if name.endswith("_token") and isinstance(token_text(named[name]), str)
    ]
    return [*suffixed, *(name for name in SPECIAL_TOKENS if name in named and name not in suffixed)]


def _of_tokenizer(path: Path) -> tuple[str | None, bool]:
    """The padding token of tokenizer.json, and whether the tokenizer is byte-level."""
    if not path.is_file():
        return None, False
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _read(path: Path, changed: int, size: int) -> tuple[str | None, bool]:
    """The result of `_of_tokenizer`, cached until the file changes, since its vocabulary may be large."""
    padding = read_json(path).get("padding")
    filler = padding.get("pad_token") if isinstance(padding, dict) else None
    return filler, '"ByteLevel"' in path.read_text(encoding="utf-8")
