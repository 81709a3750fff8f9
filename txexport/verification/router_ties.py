"""Experts that a router finds as good as each other: a tie, which PyTorch and ONNX may break differently.

ONNX's TopK takes the lower index, PyTorch's topk promises none. A case that fails while its original met ties
is held against the original once more for either choice, which must then give every number of it. The
original is unchanged but for topk, which prefers lower or higher indices among scores that are equal, or
nearer to each other than float32 promises.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from txexport.verification.agreement import Behaviour
from txexport.verification.bounds import RELATIVE
from txexport.verification.checks import TIED, TensorCheck

Run = Callable[[], list[TensorCheck]]


def judged_by_choices(run: Run, spec: Mapping[str, Any]) -> list[TensorCheck]:
    """The checks of `run`; where they fail because of ties, those of the choice that gives them all.

    Those have one more check, which counts the ties. `spec` is a manifest's; without experts in it nothing is
    run twice.
    """
    checks = run()
    if all(check.ok for check in checks) or not _has_experts(spec):
        return checks
    for order in (1, -1):
        chosen = _Choices(order)
        with chosen:
            other = run()
        if chosen.ties and all(check.ok for check in other):
            says = Behaviour(chosen.rows, chosen.rows - chosen.ties, chosen.ties)
            return [*other, TensorCheck(TIED, chosen.rows, 0.0, 0.0, behaviour=says)]
    return checks


def _has_experts(spec: Any) -> bool:
    """Tell whether a part of a spec says how many experts there are."""
    if isinstance(spec, Mapping):
        return "num_experts" in spec or any(map(_has_experts, spec.values()))
    return isinstance(spec, list | tuple) and any(map(_has_experts, spec))


class _Choices(TorchFunctionMode):
    """Counts the `rows` that topk chooses from, and those in which the last chosen is a tie with one left.

    With `order` 1 the lower index of a tie is taken, with -1 the higher.
    """

    def __init__(self, order: int):
        super().__init__()
        self.order, self.rows, self.ties = order, 0, 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Have topk look for ties; see TorchFunctionMode."""
        given = func(*args, **(kwargs or {}))
        if func not in (torch.topk, Tensor.topk):
            return given
        return self._topk(given, *args, **(kwargs or {}))

    def _topk(
        self, given: Any, scores: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
    ) -> Any:
        """values and indices (…,k) of scores (…,n) along `dim`; `given` is what the library chose."""
        if not largest or k >= scores.shape[dim] or not scores.is_floating_point():
            return given
        last = scores.movedim(dim, -1)
        ordered = last.sort(dim=-1, descending=True).values
        cut = ordered[..., k - 1 : k]
        best = ordered[..., :k].abs().mean(dim=-1, keepdim=True)  # others may be hidden by huge numbers
        near = 2 * RELATIVE * best  # what float32 promises of two scores
        self.rows += cut.numel()
        self.ties += int((cut - ordered[..., k : k + 1] <= near).sum())
        level = torch.where((last - cut).abs() <= near, cut, last)  # those of a tie, made one
        places = level.flip(-1) if self.order < 0 else level
        order = places.sort(dim=-1, descending=True, stable=True).indices[..., :k]
        indices = scores.shape[dim] - 1 - order if self.order < 0 else order
        values = last.gather(-1, indices).movedim(-1, dim)
        return torch.return_types.topk((values, indices.movedim(-1, dim)))
