"""Vectors of an image's tiles as one map (anyres), for a decoder that reads them row by row."""

import torch
from torch import Tensor, nn

from txexport.spec import MosaicSpec


class Mosaic(nn.Module):
    """The whole image, then its tiles without padding, each row ended by a vector (Liu et al. 2024)."""

    def __init__(self, spec: MosaicSpec, width: int):
        super().__init__()
        self.spec = spec
        self.newline = nn.Parameter(torch.zeros(width))

    def forward(self, features: Tensor, tile_grid: Tensor) -> Tensor:
        """Of one image the vectors of all tiles (T,N,W), the whole first, and tile_grid (1,6) -> y (M,W)."""
        rows, columns, high, wide, *last = tile_grid[0].tolist()
        x = tiles_as_map(self.spec.side, features[1:], rows, columns)  # (R, C, W)
        top, left = (x.shape[0] - high) // 2, (x.shape[1] - wide) // 2
        x = x[top : top + high, left : left + wide]
        if self.spec.most is not None:
            x = reduced(reduced(x, last[0]).transpose(0, 1), last[1]).transpose(0, 1)
        ends = self.newline.expand(x.shape[0], 1, -1)  # (R, 1, W)
        y = torch.cat([features[0], torch.cat([x, ends], 1).flatten(0, 1)])
        return y


def tiles_as_map(side: int, tiles: Tensor, rows: int, columns: int) -> Tensor:
    """Vectors of tiles, row by row (T,side*side,W) -> one map of them (rows*side,columns*side,W)."""
    apart = tiles.reshape(rows, columns, side, side, tiles.shape[2])
    y = apart.transpose(1, 2).reshape(rows * side, columns * side, tiles.shape[2])
    return y


def reduced(x: Tensor, size: int) -> Tensor:
    """x (R,C,W) -> (size,C,W): linear interpolation between rows, of which the centres are evenly spread."""
    count = x.shape[0]
    scale = torch.tensor(count, dtype=x.dtype) / torch.tensor(size, dtype=x.dtype)
    rows = ((torch.arange(size, dtype=x.dtype) + 0.5) * scale - 0.5).clamp(min=0)  # (size)
    first = rows.floor().long()
    second = (first + 1).clamp(max=count - 1)
    share = (rows - first)[:, None, None]
    y = x[first] * (1 - share) + x[second] * share
    return y
