"""Patches of images of any size, of all images in one row (Wang et al. 2024, 2.1)."""

from torch import Tensor, nn

from txexport.spec import PackedSpec
from txmodels.linear import Linear


class PackedEmbedding(nn.Module):
    """Patches of images of any size, projected."""

    def __init__(self, spec: PackedSpec):
        super().__init__()
        self.project = Linear(spec.numbers, spec.hidden_size, spec.bias)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (N,numbers) -> x (1,N,W)."""
        x: Tensor = self.project(pixel_values[None])
        return x


Embedding = PackedEmbedding
