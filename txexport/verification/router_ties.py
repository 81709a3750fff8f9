"""Ties of a router's scores, which PyTorch and ONNX may break differently.

ONNX's TopK takes the lower index; PyTorch's topk promises none. A case that fails while its reference met
ties is repeated with the reference's topk preferring the lower or the higher index among scores that are
equal within float32's error. One of the two must give equal numbers throughout.
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
    """The checks of `run`; if they fail and there are ties, those of the order in which all succeed.

    These have one more check, which counts the ties. `spec` is a manifest's; without experts in it `run` is
    not repeated.
    """
    checks = run()
    if all(check.ok for check in checks) or not _has_experts(spec):
        return checks
    for order in (1, -1):
        chosen = _Choices(order)
        with chosen:
            other = run()
        if chosen.ties and all(check.ok for check in other):
            ties = Behaviour(chosen.rows, chosen.rows - chosen.ties, chosen.ties)
            return [*other, TensorCheck(TIED, chosen.rows, 0.0, 0.0, behaviour=ties)]
    return checks


def _has_experts(spec: Any) -> bool:
    """True if a part of a spec has a number of experts."""
    if isinstance(spec, Mapping):
        return "num_experts" in spec or any(map(_has_experts, spec.values()))
    return isinstance(spec, list | tuple) and any(map(_has_experts, spec))


class _Choices(TorchFunctionMode):
    """Counts the `rows` of topk, and the `ties` between the last chosen score and the first not chosen.

    `order` 1 prefers the lower index of a tie, -1 the higher.
    """

    def __init__(self, order: int):
        super().__init__()
        self.order, self.rows, self.ties = order, 0, 0

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make topk break ties in this order; see TorchFunctionMode."""
        result = func(*args, **(kwargs or {}))
        if func not in (torch.topk, Tensor.topk):
            return result
        return self._topk(result, *args, **(kwargs or {}))

    def _topk(
        self, result: Any, scores: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
    ) -> Any:
        """values and indices (…,k) of scores (…,n) along `dim`; `result` is that of the library."""
        if not largest or k >= scores.shape[dim] or not scores.is_floating_point():
            return result
        last = scores.movedim(dim, -1)
        ordered = last.sort(dim=-1, descending=True).values
        cut = ordered[..., k - 1 : k]
        best = ordered[..., :k].abs().mean(dim=-1, keepdim=True)
        near = 2 * RELATIVE * best  # float32's error of two scores
        self.rows += cut.numel()
        self.ties += int((cut - ordered[..., k : k + 1] <= near).sum())
        level = torch.where((last - cut).abs() <= near, cut, last)  # the scores of a tie become equal
        ranked = level.flip(-1) if self.order < 0 else level
        order = ranked.sort(dim=-1, descending=True, stable=True).indices[..., :k]
        indices = scores.shape[dim] - 1 - order if self.order < 0 else order
        values = last.gather(-1, indices).movedim(-1, dim)
        return torch.return_types.topk((values, indices.movedim(-1, dim)))
