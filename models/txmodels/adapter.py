"""A small network after a layer."""

from torch import Tensor, nn

from txexport.spec import AdapterSpec
from txmodels.feedforward import FeedForward
from txmodels.norm import Norm


class Adapter(nn.Module):
    """A norm and a small network in a residual (Houlsby et al. 2019, 2.1)."""

    def __init__(self, spec: AdapterSpec):
        super().__init__()
        self.norm, self.feed_forward = Norm(spec.norm), FeedForward(spec.feed_forward)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> y (B,S,W)."""
        y: Tensor = x + self.feed_forward(self.norm(x))
        return y
