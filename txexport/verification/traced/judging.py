"""A traced graph beside the library's model: whole tensors, every output, without padding."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from txexport.verification import bounds
from txexport.verification.checks import TensorCheck, check_of
from txexport.verification.references.precision import in_float64, perturbed
from txexport.verification.traced.originals import Original


class Runs(Protocol):
    """A graph in a session, such as a TracedModel."""

    def __call__(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Every output by name."""


def judged(original: Original, graph: Runs, values: Mapping[str, np.ndarray]) -> list[TensorCheck]:
    """One check of each output; whole numbers must be equal. Raises AssertionError for other outputs."""
    expected = original.run(values)
    answers = {name.removeprefix("output."): array for name, array in graph(**values).items()}
    if answers.keys() != expected.keys():
        raise AssertionError(f"outputs are {', '.join(answers)}, expected {', '.join(expected)}")
    checks: dict[str, TensorCheck] = {}
    for name, array in expected.items():
        bound = bounds.RELATIVE if np.issubdtype(array.dtype, np.floating) else 0.0
        checks[name] = check_of(name, [_real(answers[name], array, values)], bound)
    if all(check.ok for check in checks.values()):
        return list(checks.values())
    return [_excused(check, original, values, answers, expected) for check in checks.values()]


def _excused(
    check: TensorCheck,
    original: Original,
    values: Mapping[str, np.ndarray],
    answers: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
) -> TensorCheck:
    """A check whose bound is a few times the rounding of the original in float32, where that is larger."""
    name = check.output
    if check.ok or not check.tolerance:
        return check
    try:
        with in_float64(original.model):
            exact = original.run(values)[name]
        with perturbed(original.model, 0, centred=False):
            shaken = original.run(values)[name]
    except Exception:  # some classes do not compute in float64
        return check
    if not exact.shape == shaken.shape == expected[name].shape:
        return check
    pairs = (_real(other, exact, values) for other in (expected[name], shaken))
    rounding = max(bounds.largest_error(reference, real) for reference, real in pairs)
    allowed = bounds.bound(bounds.RELATIVE, rounding, bounds.is_scalar(exact))
    checked = check_of(name, [_real(answers[name], expected[name], values)], allowed)
    return TensorCheck(name, checked.elements, checked.error, allowed, rounding)


def _real(
    answers: np.ndarray, expected: np.ndarray, values: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The pair without the positions that the attention mask excludes."""
    mask = values.get("attention_mask")
    if mask is None or expected.shape[:2] != mask.shape or answers.shape != expected.shape:
        return answers, expected
    return answers[mask == 1], expected[mask == 1]
