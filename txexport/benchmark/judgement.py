"""Defects of candidates: answers that differ from those of float32, however fast they are."""

from collections.abc import Mapping, Sequence

from txexport.benchmark.result import Candidate
from txexport.dtype_comparison.accuracy import CHANGE, COSINE, ENTITIES, GREEDY, SAME
from txexport.formats import DTYPES
from txexport.runtime.engines import FLOAT32

# The bounds of rounding between two engines in float32. bfloat16 has larger ones: its relative error is
# 2e-3, and the error of the cosine of vectors is the square of that.
ROUNDING = {COSINE: 1e-6, CHANGE: 1e-4}


def wrong_of(
    candidates: Sequence[Candidate], accuracy: Mapping[str, Mapping[str, float]], loss: float
) -> dict[str, str | None]:
    """The defect of each candidate by name, None if it has none; the first is the reference.

    A generator's tokens are reported but not judged if its numbers are narrower: one token that differs
    changes all tokens after it. If an engine is wrong in float32, it is not chosen in any dtype, since all of
    them share its caches.
    """
    broken: dict[str, str] = {}
    result: dict[str, str | None] = {}
    for one in candidates[1:]:
        exact = DTYPES[one.dtype].exact and one.precision == FLOAT32
        message = _lost(accuracy[one.name], exact, loss)
        if exact and message is not None:
            broken[one.engine] = f"{one.engine} is wrong in float32"
        result[one.name] = message
    return {one.name: result.get(one.name) or broken.get(one.engine) for one in candidates}


def _lost(measured: Mapping[str, float], exact: bool, loss: float) -> str | None:
    """The first measure whose loss exceeds its bound."""
    most = {COSINE: loss, CHANGE: loss, ENTITIES: loss} | (ROUNDING if exact else {})
    # The answers of a generator agree if all tokens agree.
    most |= {GREEDY: loss} if exact else {}
    most |= {} if GREEDY in measured else {SAME: loss}
    for name, allowed in most.items():
        number = measured.get(name, 0 if name == CHANGE else 1)
        lost = number if name == CHANGE else 1 - number
        if not (abs(lost) if exact else lost) <= allowed:  # false for NaN
            return f"{name} is {number:.7g}, which loses more than {allowed:g}"
    return None
