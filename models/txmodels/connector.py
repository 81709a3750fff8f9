"""The connector, which projects vectors of images or sounds to a decoder's embeddings."""

from torch import Tensor, nn

from txexport.spec import ConnectorSpec
from txmodels.activation import activation
from txmodels.linear import Linear
from txmodels.norm import Norm


class Connector(nn.Module):
    """Neighbours joined, then one projection or two to a decoder's width (Liu et al. 2023, 4.1)."""

    def __init__(self, spec: ConnectorSpec):
        super().__init__()
        self.spec = spec
        self.norm = None if spec.norm is None else Norm(spec.norm)
        if spec.intermediate_size is None or spec.activation is None:
            self.project = Linear(spec.wide, spec.size, spec.bias)
        else:
            self.up = Linear(spec.wide, spec.intermediate_size, spec.bias)
            self.act = activation(spec.activation)
            self.down = Linear(spec.intermediate_size, spec.size, spec.bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> features (B,N,size)."""
        x = x[:, self.spec.skipped :]
        if self.norm is not None and self.spec.normed_first:
            x = self.norm(x)
        if self.spec.grid is None:
            x = x.unflatten(1, (-1, self.spec.joined)).flatten(2)
        elif self.spec.merged > 1:
            x = neighbours(self.spec.grid, self.spec.merged, x)  # (B, N, merged*merged*W)
        if self.spec.pooled:
            x = x.unflatten(2, (self.spec.joined, -1)).mean(2)  # (B, N, W)
        if self.norm is not None and not self.spec.normed_first:
            x = self.norm(x)
        if self.spec.intermediate_size is None:
            features: Tensor = self.project(x)
        else:
            features = self.down(self.act(self.up(x)))
        return features


def neighbours(grid: tuple[int, int], merged: int, x: Tensor) -> Tensor:
    """x (B,R*C,W) -> y (B,R*C/merged²,merged²*W): squares of neighbours, row by row."""
    rows, columns = grid
    apart = x.unflatten(1, (rows // merged, merged, columns // merged, merged))
    y = apart.transpose(2, 3).flatten(3).flatten(1, 2)
    return y
