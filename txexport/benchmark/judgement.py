"""Which candidates answer as float32 does: what is wrong is named, however fast it is."""

from collections.abc import Mapping, Sequence

from txexport.benchmark.result import Candidate
from txexport.dtype_comparison.accuracy import CHANGE, COSINE, ENTITIES, GREEDY, SAME
from txexport.formats import DTYPES
from txexport.runtime.engines import FLOAT32

# Of two engines that compute in float32: what rounding may leave. bfloat16 takes more: its numbers are off
# by 2e-3, and the cosine of vectors by the square of that.
ROUNDING = {COSINE: 1e-6, CHANGE: 1e-4}


def wrong_of(
    candidates: Sequence[Candidate], accuracy: Mapping[str, Mapping[str, float]], loss: float
) -> dict[str, str | None]:
    """The defect of each candidate by name, None if it has none; the first is the reference.

    A generator's tokens are told and not judged where numbers are fewer: one that differs changes all after
    it. So an engine whose float32 is wrong is not chosen in any dtype, which its caches would all share.
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
    """The first measure that lost more than it may."""
    most = {COSINE: loss, CHANGE: loss, ENTITIES: loss} | (ROUNDING if exact else {})
    # Of a generator, answers are the same where all tokens are.
    most |= {GREEDY: loss} if exact else {}
    most |= {} if GREEDY in measured else {SAME: loss}
    for name, allowed in most.items():
        number = measured.get(name, 0 if name == CHANGE else 1)
        lost = number if name == CHANGE else 1 - number
        if not (abs(lost) if exact else lost) <= allowed:  # NaN is not
            return f"{name} is {number:.7g}, which loses more than {allowed:g}"
    return None
