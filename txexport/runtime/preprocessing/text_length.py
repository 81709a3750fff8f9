"""The longest text that a checkpoint's files allow, apart from the model's position limit."""

from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.errors import BundleError, shown
from txexport.support.arguments import is_whole

TRANSFORMERS, SENTENCES = "tokenizer_config.json", "sentence_bert_config.json"
UNLIMITED = 10**20  # no limit from here on: transformers writes 1e30 for none


def read_max_length(folder: Path) -> int | None:
    """The most tokens of a text, special tokens included; None where the files set no limit.

    `max_seq_length` in sentence-transformers' own file overrides the tokenizer's `model_max_length`, where
    its version 6 and its cross-encoders write the limit. Raises BundleError for an invalid number.
    """
    longest = sentence_settings(folder).get("max_seq_length")
    if longest is not None:
        return int(longest)
    settings = read_json(folder / TRANSFORMERS, missing={})
    name = "model_max_length" if "model_max_length" in settings else "max_len"  # as older versions wrote it
    return _tokens(f"{folder / TRANSFORMERS}: {name}", settings.get(name))


def _tokens(name: str, value: Any) -> int | None:
    """A tokenizer's limit, which may be a float such as 1e30. Raises BundleError for an invalid one."""
    if value is None:
        return None
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if number > UNLIMITED:
        return None
    if number < 1 or int(number) != number:
        raise BundleError(
            f"{name} is {shown(value)}, expected a whole number of at least 1; correct it and export again"
        )
    return int(number)


def sentence_settings(folder: Path) -> dict[str, Any]:
    """The text settings of sentence-transformers' file. Raises BundleError for damaged values."""
    settings = read_json(folder / SENTENCES, missing={})
    longest, lower = settings.get("max_seq_length"), settings.get("do_lower_case") or False
    if not isinstance(lower, bool) or not (longest is None or is_whole(longest, 1)):
        message = f"max_seq_length is {shown(longest)} and do_lower_case {shown(lower)}"
        raise BundleError(
            f"{folder / SENTENCES}: {message}, expected a whole number of at least 1, and true or false"
        )
    return settings
