"""Late interaction: a vector for each token, by PyLate's files."""

import string
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from txexport.bundle import module_folder, read_json
from txexport.errors import BundleError, shown
from txexport.runtime.vectors.pooling import TOKENS, Dense, dense_layer, is_late, lower_case, read_prompts
from txexport.support.arguments import is_whole

FILE = "config_sentence_transformers.json"
LENGTHS = 4, 2**20  # room for a token of the text beside a prefix and special tokens
T = TypeVar("T")


@dataclass(frozen=True)
class TokenVectors:
    """Dense layers over every hidden state, then L2 normalisation (Khattab and Zaharia 2020, 3.2).

    A prefix is one token after the first token of a text; "" is none. `query_length` and `document_length`
    are the most tokens, prefix included. If `expands`, queries are padded to that length with mask tokens, to
    which other tokens attend if `attends`. Documents have no vectors for the tokens in `skiplist`. `prompt`
    is put before every text; `lower` lowercases texts first.
    """

    query_prefix: str
    document_prefix: str
    query_length: int
    document_length: int
    expands: bool
    attends: bool
    skiplist: tuple[str, ...]
    dense: tuple[Dense, ...]
    lower: bool
    prompt: str


def read_token_vectors(folder: Path) -> TokenVectors | None:
    """Read PyLate's files, with its defaults; None where they do not describe late interaction.

    Raises BundleError for a module after the dense layers, and for an invalid setting.
    """
    modules = read_json(folder / "modules.json", missing=[])
    if not is_late(modules):
        return None
    kinds = [
        str(module.get("type")).rpartition(".")[2] if isinstance(module, dict) else "?" for module in modules
    ]
    if kinds != ["Transformer", *["Dense"] * (len(kinds) - 1)]:
        raise BundleError(
            f"modules.json names {', '.join(kinds)[:200]}; expected Transformer, then Dense alone, since "
            "there is no pooling"
        )
    config = read_json(folder / FILE, missing={})
    prompts, default = read_prompts(config)
    expands = _setting(config, "do_query_expansion", True)
    return TokenVectors(
        _setting(config, "query_prefix", "[Q] "),
        _setting(config, "document_prefix", "[D] "),
        _length(config, "query_length", 32),
        _length(config, "document_length", 180),
        expands,
        expands and _setting(config, "attend_to_expansion_tokens", False),
        _words(config),
        tuple(dense_layer(folder / module_folder(module), TOKENS) for module in modules[1:]),
        lower_case(folder),
        prompts[default] if default is not None else "",
    )


def _setting(config: Mapping[str, Any], name: str, default: T) -> T:
    """A setting of its default's type; null gives the default too. Raises BundleError for another type."""
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, type(default)):
        raise BundleError(f"{FILE}: {name} is {shown(value)}, expected {type(default).__name__}")
    return value


def _length(config: Mapping[str, Any], name: str, default: int) -> int:
    value = default if config.get(name) is None else config[name]
    if not is_whole(value, *LENGTHS):
        raise BundleError(f"{FILE}: {name} is {shown(value)}, expected {LENGTHS[0]} to {LENGTHS[1]:,} tokens")
    return int(value)


def _words(config: Mapping[str, Any]) -> tuple[str, ...]:
    skiplist = config.get("skiplist_words")
    skiplist = list(string.punctuation) if skiplist is None else skiplist
    if not isinstance(skiplist, list) or not all(isinstance(word, str) for word in skiplist):
        raise BundleError(f"{FILE}: skiplist_words is {shown(skiplist)}, expected a list of tokens")
    return tuple(skiplist)
