"""Patches of images of any size, of all images in one row (Wang et al. 2024, 2.1)."""

from torch import Tensor, nn

from txexport.spec import PackedSpec
from txmodels.linear import Linear
from txmodels.packed import grid_positions


class PackedEmbedding(nn.Module):
    """Patches of images of any size, projected, plus positions interpolated to each size if there are any."""

    def __init__(self, spec: PackedSpec):
        super().__init__()
        self.side = spec.side
        self.position = nn.Embedding(spec.side**2, spec.hidden_size) if spec.side else None
        self.project = Linear(spec.numbers, spec.hidden_size, spec.bias)

    def forward(self, pixel_values: Tensor, coordinates: Tensor, sides: Tensor) -> Tensor:
        """pixel_values (N,numbers), coordinates and sides (2,1,N) of patches -> x (1,N,W)."""
        x: Tensor = self.project(pixel_values[None])
        if self.position is not None:
            x = x + grid_positions(self.side, coordinates, sides, self.position.weight)
        return x


Embedding = PackedEmbedding
