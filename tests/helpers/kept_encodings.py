"""A cache of comparisons of tokenizers, which depend on neither weights nor graphs."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from txexport.runtime.preprocessing.text import Text
from txexport.verification.checks import TensorCheck
from txexport.verification.processors import tokenizer

compare = tokenizer._encoded
OWN = ("name_or_path", "_tokenizer")  # a checkpoint's path, and what is written out in full


class KeptEncodings:
    """Checks of equal tokenizers on equal texts, computed once; what differs raises each time."""

    def __init__(self) -> None:
        self.known: dict[bytes, list[TensorCheck]] = {}

    def encoded(self, ours: Text, theirs: Any, singles: Sequence[str], quick: bool) -> Iterator[TensorCheck]:
        """As `tokenizer._encoded`."""
        key = _key(ours, theirs, singles, quick)
        if key is None:
            return compare(ours, theirs, singles, quick)
        if key not in self.known:
            self.known[key] = [*compare(ours, theirs, singles, quick)]
        return iter(self.known[key])


def _key(ours: Text, theirs: Any, singles: Sequence[str], quick: bool) -> bytes | None:
    """A digest of all that encodings depend on; None for a tokenizer in Python, which no text describes."""
    if not theirs.is_fast:
        return None
    settings = {name: value for name, value in vars(theirs).items() if name not in OWN}
    settings["init_kwargs"] = {name: value for name, value in theirs.init_kwargs.items() if name not in OWN}
    described = repr(
        (
            ours.tokenizer.to_str(),
            ours.tokenizer.encode_special_tokens,
            (ours.cut_side, ours.padding_side),
            (type(theirs).__qualname__, theirs.backend_tokenizer.to_str(), sorted(settings.items())),
            theirs.backend_tokenizer.encode_special_tokens,
            (tokenizer.LENGTHS, tokenizer.PARTS, [*singles], quick),
        )
    )
    return None if " at 0x" in described else hashlib.blake2b(described.encode("utf-8", "replace")).digest()
