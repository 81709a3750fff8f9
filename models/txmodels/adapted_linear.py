"""Projection of the last axis with an adapter of low rank."""

from torch import Tensor

from txmodels.grouped_linear import GroupedLinear, grouped_linear
from txmodels.linear import Linear


class AdaptedLinear(Linear):
    """x (..., in) -> y (..., out), plus two projections by way of `rank` numbers (Hu et al. 2021, 4.1)."""

    def __init__(self, inputs: int, outputs: int, bias: bool, rank: int):
        super().__init__(inputs, outputs, bias)
        self.adapter_down = Linear(inputs, rank, False)
        self.adapter_up = Linear(rank, outputs, False)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) -> y (..., out)."""
        y: Tensor = super().forward(x) + self.adapter_up(self.adapter_down(x))
        return y


def adapted_linear(
    inputs: int, outputs: int, bias: bool, groups: int, rank: int | None
) -> Linear | GroupedLinear:
    """The projection in `groups`, or one with an adapter of `rank`."""
    if rank is None:
        return grouped_linear(inputs, outputs, bias, groups)
    return AdaptedLinear(inputs, outputs, bias, rank)
