"""A grid's vectors as a map of features."""

from torch import Tensor, nn

from txexport.spec import NeckSpec
from txmodels.norm import Norm


class Neck(nn.Module):
    """A projection and a convolution, each with a norm behind it (Li et al. 2022, 3)."""

    def __init__(self, spec: NeckSpec):
        super().__init__()
        self.project = nn.Conv2d(spec.hidden_size, spec.size, 1, bias=False)
        self.project_norm = Norm(spec.norm)
        self.convolve = nn.Conv2d(spec.size, spec.size, 3, padding=1, bias=False)
        self.convolve_norm = Norm(spec.norm)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> features (B,size,R,C)."""
        projected = self._normed(self.project_norm, self.project(x.permute(0, 3, 1, 2)))
        return self._normed(self.convolve_norm, self.convolve(projected))

    def _normed(self, norm: nn.Module, features: Tensor) -> Tensor:
        """Features (B,size,R,C), the numbers of each place normalised."""
        normed: Tensor = norm(features.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return normed
