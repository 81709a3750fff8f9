"""Images of any size as grids of patches (Liu et al. 2021, 3.1)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

from txexport.spec import PatchGridSpec, WindowedPositionsSpec
from txmodels.inputs.patches import resized
from txmodels.norm import Norm


class _GridPosition(nn.Module):
    """A learned vector for each place of a grid."""

    def __init__(self, spec: PatchGridSpec):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(*spec.grid, spec.hidden_size))


class _Table(nn.Module):
    """Learned numbers of places, channels first."""

    def __init__(self, *shape: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(shape))


class WindowedPosition(nn.Module):
    """A table interpolated to a grid, and one of a window repeated over it (Bolya et al. 2023, 4)."""

    def __init__(self, spec: WindowedPositionsSpec, hidden_size: int):
        super().__init__()
        self.background = _Table(hidden_size, spec.rows, spec.columns)
        self.window = _Table(hidden_size, spec.window, spec.window)

    def forward(self, grid: Tensor) -> Tensor:
        """grid (B,W,R,C) -> positions (R,C,W)."""
        (rows, columns), side = grid.shape[2:], self.window.weight.shape[1]
        background = interpolate(self.background.weight[None], (rows, columns), mode="bicubic")[0]
        window = self.window.weight.repeat(1, rows // side, columns // side)  # (W, R, C)
        positions = (background + window).permute(1, 2, 0)
        return positions


class PatchGridEmbedding(nn.Module):
    """Patches of images, projected and normalised, plus positions if there are any (Liu et al. 2021, 3.1)."""

    def __init__(self, spec: PatchGridSpec):
        super().__init__()
        self.spec = spec
        width, around = spec.hidden_size, 0 if spec.kernel is None else spec.kernel // 2
        self.project = nn.Conv2d(spec.channels, width, spec.side, spec.patch_size, around)
        self.norm = Norm(spec.norm) if spec.norm is not None else nn.Identity()
        self.position: _GridPosition | WindowedPosition | nn.Embedding | None = None
        if spec.windowed is not None:
            self.position = WindowedPosition(spec.windowed, width)
        elif spec.positioned:
            self.position = _GridPosition(spec) if spec.fixed else nn.Embedding(spec.positions, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B,channels,height,width) -> x (B,R,C,W), rows and columns of patches."""
        pixels = pixel_values
        if self.spec.kernel is None and not self.spec.fixed:
            pixels = whole_patches(self.spec.patch_size, pixel_values)
        grid = self.project(pixels)  # (B, W, R, C)
        x: Tensor = self.norm(grid.permute(0, 2, 3, 1))  # (B, R, C, W)
        if isinstance(self.position, WindowedPosition):
            x = x + self.position(grid)
        elif self.position is not None:
            positions: Tensor = self.position.weight
            if not self.spec.fixed:
                positions = resized(positions, grid.shape[2:], self.spec.grid).unflatten(0, x.shape[1:3])
            x = x + positions  # (R, C, W)
        return x


def whole_patches(side: int, pixel_values: Tensor) -> Tensor:
    """pixel_values (B,channels,height,width) -> the same, with zeros to multiples of `side` pixels."""
    height, width = pixel_values.shape[2:]
    pixels = pad(pixel_values, (0, -width % side, 0, -height % side))
    return pixels


Embedding = PatchGridEmbedding
