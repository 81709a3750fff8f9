"""A cache of originals and their outputs, which depend on the inputs and not on the graph compared."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.verification.cases.experts import has_experts
from txexport.verification.references.originals import Twin
from txexport.verification.references.selection import originals_of
from txexport.verification.references.transformers_reference import Transformers

KINDS = (Twin, Transformers)
MOST = 256 << 20  # bytes of weights and outputs


class KeptOriginals:
    """Originals by their source, with their outputs; the least recently used are evicted.

    Originals with weights rounded by a format, which no file holds, are cached for one verification alone.
    """

    def __init__(self) -> None:
        self.known: OrderedDict[tuple, _Kept] = OrderedDict()

    def originals_of(self, kinds: dict, checkpoint: Checkpoint, resolved: Any, outputs: Any) -> dict:
        """As `selection.originals_of`."""
        of = self._of if type(checkpoint) is Checkpoint else _fresh
        kinds = {name: partial(of, kind) if kind in KINDS else kind for name, kind in kinds.items()}
        return originals_of(kinds, checkpoint, resolved, outputs)

    def _of(self, kind: Callable, checkpoint: Checkpoint, resolved: Any, outputs: Any) -> Any:
        files = tuple(checkpoint.hashes().items())
        weights = tuple((name, weight.key) for name, weight in resolved.weights.items())
        key = (kind, files, resolved.task, repr(resolved.spec), weights, tuple(outputs))
        original = self.known[key].original if key in self.known else kind(checkpoint, resolved, outputs)
        if _counts_experts(original):
            return original
        if key not in self.known:
            self.known[key] = _Kept(original)
        self.known.move_to_end(key)
        while sum(kept.size for kept in self.known.values()) > MOST:
            self.known.popitem(last=False)
        return original


def _fresh(kind: Callable, *given: Any) -> Any:
    original = kind(*given)
    return original if _counts_experts(original) else _Kept(original).original


def _counts_experts(original: Any) -> bool:
    """Tell whether a report lists the experts that were used, which is recorded as they compute."""
    return isinstance(original, Twin) and has_experts(original.model)


class _Kept:
    """An original that returns cached outputs; they are read-only."""

    def __init__(self, original: Any):
        self.original, self.answers = original, {}
        self.size = sum(numbers.nbytes for numbers in original.model.parameters())
        self.plain = {name: getattr(original, name) for name in ("encode", "decode", "perturbed")}
        original.perturbed = self._perturbed
        self._answer_from_memory()

    def _answer_from_memory(self) -> None:
        for name in ("encode", "decode"):
            setattr(self.original, name, partial(self._answer, name))

    def _answer(self, name: str, *given: Any) -> dict[str, np.ndarray]:
        key = (name, torch.get_default_dtype(), digest(given))
        if key not in self.answers:
            answer = self.plain[name](*given)
            for array in answer.values():
                array.setflags(write=False)
            self.answers[key] = answer
            self.size += sum(array.nbytes for array in answer.values())
        return dict(self.answers[key])

    @contextmanager
    def _perturbed(self, seed: int) -> Iterator[None]:
        """Random perturbations are drawn anew on each call."""
        for name in ("encode", "decode"):
            setattr(self.original, name, self.plain[name])
        try:
            with self.plain["perturbed"](seed):
                yield
        finally:
            self._answer_from_memory()


def digest(given: Any) -> bytes:
    """A digest of arrays, numbers and texts, and of what holds them."""
    state = hashlib.blake2b(digest_size=16)
    _add(state, given)
    return state.digest()


def _add(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        digest.update(repr((value.shape, value.dtype.str)).encode() + value.tobytes())
    elif isinstance(value, dict):
        _add(digest, [*value.items()])
    elif isinstance(value, tuple | list):
        digest.update(b"[")
        for part in value:
            _add(digest, part)
        digest.update(b"]")
    else:
        digest.update(repr(value).encode() + b",")
