"""A residual of low rank beside attention."""

from torch import Tensor, nn

from txexport.spec import AugmentedResidualSpec
from txmodels.linear import Linear
from txmodels.norm import Norm


class AugmentedResidual(nn.Module):
    """A vector and its normalised projection to few numbers and back (Menghani et al. 2024, 2.1)."""

    def __init__(self, spec: AugmentedResidualSpec):
        super().__init__()
        self.down = Linear(spec.hidden_size, spec.rank, False)
        self.up = Linear(spec.rank, spec.hidden_size, False)
        self.norm = Norm(spec.norm)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> y (B,S,W)."""
        y: Tensor = x + self.norm(self.up(self.down(x)))
        return y
