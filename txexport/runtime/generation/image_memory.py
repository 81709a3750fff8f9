"""The results for the last images in prompts, which the next turns of a conversation read again."""

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

MOST_BYTES = 2**28  # of what is kept: 28 images of LLaVA 1.5, 7B, or 1800 tiles of SmolVLM-256M
LAST = 4  # images that are kept however large they are: one of Llama 3.2 Vision has 420 MB
CHANGES = threading.Lock()


class Sized(Protocol):
    """A result of that many bytes."""

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""


T = TypeVar("T", bound=Sized)


def remembered(known: dict[bytes, T], digest: bytes, compute: Callable[[], T]) -> T:
    """The result for an image by its digest, computed unless it is `known`, where the last ones are kept."""
    result = known.get(digest)
    if result is None:
        result = compute()
        with CHANGES:  # requests of a server run side by side
            known[digest] = result
            size = sum(one.nbytes for one in known.values())
            while size > MOST_BYTES and len(known) > LAST:
                size -= known.pop(next(iter(known))).nbytes
    return result
