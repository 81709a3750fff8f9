"""A traced graph beside the library's model: whole tensors, every output, without padding."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

import numpy as np

from txexport.verification import bounds
from txexport.verification.checks import TensorCheck, check_of
from txexport.verification.references.precision import in_float64, perturbed
from txexport.verification.traced.originals import Original

Arrays = Mapping[str, np.ndarray]
Pair = tuple[np.ndarray, np.ndarray]


class Graph(Protocol):
    """A graph in a session, such as a TracedModel."""

    def __call__(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Every output by name."""


def judged(original: Original, graph: Graph, values: Arrays) -> list[TensorCheck]:
    """One check of each output of a graph for the inputs `values`; errors as `compared`."""
    outputs = {name.removeprefix("output."): array for name, array in graph(**values).items()}
    compute = partial(original.run, values)
    return compared(original, compute, outputs, partial(unpadded, values.get("attention_mask")))


def compared(
    original: Original,
    compute: Callable[[], dict[str, np.ndarray]],
    outputs: Arrays,
    unpadded: Callable[[str, np.ndarray, np.ndarray], Pair],
) -> list[TensorCheck]:
    """One check of each of a graph's `outputs` beside those that `compute` gives of the original.

    Integers must be equal. `unpadded` leaves padding out of a pair of arrays of an output. If an error
    exceeds the bound, the original also computes in float64 and with a perturbation, and the bound follows
    the rounding of float32, as in `judgement`. Raises AssertionError for other outputs than the original's.
    """
    expected = compute()
    if outputs.keys() != expected.keys():
        raise AssertionError(f"outputs are {', '.join(outputs)}, expected {', '.join(expected)}")

    def check(name: str, rounding: float | None) -> TensorCheck:
        array, allowed = expected[name], 0.0
        if np.issubdtype(array.dtype, np.floating):
            allowed = bounds.bound(bounds.RELATIVE, rounding, bounds.is_scalar(array))
        return replace(check_of(name, [unpadded(name, outputs[name], array)], allowed), rounding=rounding)

    checks = [check(name, None) for name in expected]
    if all(one.ok for one in checks):
        return checks
    try:
        with in_float64(original.model):
            exact = compute()
        with perturbed(original.model, 0, centred=False):
            disturbed = compute()
    except Exception:  # some classes do not compute in float64
        return checks

    def rounding(name: str) -> float:
        pairs = (unpadded(name, one[name], exact[name]) for one in (expected, disturbed))
        return max(bounds.largest_error(*pair) for pair in pairs)

    return [check(name, rounding(name)) for name in expected]


def unpadded(mask: np.ndarray | None, _name: str, outputs: np.ndarray, expected: np.ndarray) -> Pair:
    """The pair of an output without the positions that the attention mask excludes."""
    if mask is None or expected.shape[:2] != mask.shape or outputs.shape != expected.shape:
        return outputs, expected
    return outputs[mask == 1], expected[mask == 1]
