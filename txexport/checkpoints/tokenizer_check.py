"""A checkpoint's tokenizer.json, checked before it goes into a bundle."""

import json
import warnings
from pathlib import Path

import tokenizers

from txexport.errors import CheckpointError, first_line, is_failure, shown


def check_tokenizer(path: Path) -> None:
    """Raise CheckpointError for a damaged file, and for two words of one id, whose decoding would change.

    A file that the installed tokenizers cannot read may be for a newer version: it is warned of.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} cannot be read as JSON: {first_line(error)}; save the tokenizer again"
        ) from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} is {shown(content)}, expected an object; save the tokenizer again")
    try:
        tokenizers.Tokenizer.from_file(str(path))
    except BaseException as error:  # of tokenizers, whose panics have no base class
        if not is_failure(error):
            raise
        warnings.warn(
            f"{path} cannot be read by tokenizers {tokenizers.__version__}: {first_line(error)}; the bundle "
            "reads token ids only",
            stacklevel=3,
        )
    model = content.get("model")
    model = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(model, dict):
        return  # a list, whose indices are the ids
    by_id: dict[int, str] = {}
    for word, number in model.items():
        if isinstance(number, int) and by_id.setdefault(number, word) != word:
            raise CheckpointError(
                f"{path} has two tokens with the id {number}, {shown(by_id[number])} and {shown(word)}; "
                "expected one; create the tokenizer again"
            )
