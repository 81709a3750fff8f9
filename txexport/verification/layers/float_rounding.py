"""The rounding of float32 in a value that one call of a module computes, as `bounds` measures it."""

from contextlib import AbstractContextManager
from dataclasses import replace
from math import isfinite

import numpy as np

from txexport.verification.bounds import largest_error
from txexport.verification.layers.expand import Place
from txexport.verification.layers.sessions import truth
from txexport.verification.layers.trace import Trace, Traced
from txexport.verification.references.precision import SAMPLES, in_float64, perturbed


def rounding_of(trace: Trace, traced: Traced, owner: str, place: Place) -> float | None:
    """The largest error that float32's rounding makes in a value of one call of `owner`.

    It is relative to the tensor's size. The call is repeated on its recorded arguments. `place` is in the
    module itself or in a part of it. None if the calls of a part cannot be matched with those of `owner`.
    """
    calls, of_part = (traced.calls.get(name, []) for name in (owner, place.module))
    times = len(of_part) // len(calls) if calls else 0
    if not times or times * len(calls) != len(of_part):
        return None
    call, module = calls[place.call // times], trace.modules[owner]
    within = replace(place, call=place.call % times)

    def again(computing: AbstractContextManager[None]) -> np.ndarray | None:
        with computing, trace.recorded() as parts:
            call.repeated(module)
        alike = len(parts.get(place.module, [])) == times
        return truth(Traced(parts, {}), within) if alike else None

    exact = again(in_float64(module))
    others = [truth(traced, place), *(again(perturbed(module, seed, False)) for seed in range(SAMPLES))]
    arrays = [array for array in others if array is not None]
    errors = [] if exact is None else [largest_error(array, exact) for array in arrays]
    return max(filter(isfinite, errors), default=None)
