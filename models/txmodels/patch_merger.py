"""Neighbouring patches of images of any size, merged before a connector."""

from torch import Tensor, nn

from txexport.spec import PatchMergerSpec
from txmodels.linear import Linear
from txmodels.norm import Norm


class PatchMerger(nn.Module):
    """A norm, then a projection of squares of neighbours, each to one vector (Mistral Small 3.1, 2025)."""

    def __init__(self, spec: PatchMergerSpec, patch_size: int):
        super().__init__()
        self.merged, self.patch_size = spec.merged, patch_size
        self.norm = Norm(spec.norm)
        self.project = Linear(spec.hidden_size * spec.merged**2, spec.hidden_size, bias=False)

    def forward(self, x: Tensor, pixel_values: Tensor) -> Tensor:
        """x (I,R*C,W) of pixel_values (I,channels,height,width) -> y (I,R*C/merged²,W)."""
        y: Tensor = self.project(unfolded(self.patch_size, self.merged, self.norm(x), pixel_values))
        return y


def unfolded(patch_size: int, merged: int, x: Tensor, pixel_values: Tensor) -> Tensor:
    """x (I,R*C,W) -> y (I,R*C/merged²,W*merged²): the neighbours of a square side by side for each number."""
    rows, columns = (side // patch_size for side in pixel_values.shape[2:])
    apart = x.unflatten(1, (rows // merged, merged, columns // merged, merged))
    y = apart.permute(0, 1, 3, 5, 2, 4).flatten(3).flatten(1, 2)
    return y
