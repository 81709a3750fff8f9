"""Images in square patches (Dosovitskiy et al. 2021, 3.1)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from txexport.spec import PatchSpec
from txmodels.norm import Norm


class PatchEmbedding(nn.Module):
    """Patches of images, projected, after learned tokens, plus positions (Dosovitskiy et al. 2021, 3.1)."""

    def __init__(self, spec: PatchSpec):
        super().__init__()
        self.spec = spec
        width, size = spec.hidden_size, spec.patch_size
        self.tokens = nn.ModuleList(nn.Embedding(1, width) for _ in range(spec.tokens))
        self.registers = nn.Embedding(spec.registers, width) if spec.registers else None
        self.detection = nn.Embedding(spec.detection_tokens, width) if spec.detection_tokens else None
        self.position = nn.Embedding(spec.positions, width) if spec.positioned else None
        self.project = nn.Conv2d(spec.channels, width, size, size, spec.border, bias=spec.bias)
        self.norm = Norm(spec.norm) if spec.norm is not None else nn.Identity()

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B,channels,height,width) -> x (B,S,W)."""
        grid = self.project(pixel_values)  # (B, W, rows, columns)
        patches = grid.flatten(2).mT  # (B, S - tokens, W)
        tokens = [
            token(patches.new_zeros(patches.shape[0], 1, dtype=torch.long)) for token in self.tokens
        ]  # (B, 1, W) each
        detection = [] if self.detection is None else [self.detection.weight.expand(patches.shape[0], -1, -1)]
        embedded = torch.cat([*tokens, patches, *detection], dim=1)  # (B, S - registers, W)
        if self.position is not None:
            position = self.position.weight  # (S - registers, W)
            if self.spec.any_size:
                position = resized(
                    position, grid.shape[2:], self.spec.grid, self.spec.tokens, self.spec.antialias
                )
            if self.spec.shared_position:
                position = position[1:] + position[:1]
            embedded = embedded + position
        if self.registers is not None:
            registers = torch.arange(self.spec.registers, device=embedded.device)
            register_ids = registers.expand(embedded.shape[0], -1)
            before, behind = embedded[:, : self.spec.tokens], embedded[:, self.spec.tokens :]
            embedded = torch.cat([before, self.registers(register_ids), behind], dim=1)  # (B, S, W)
        x: Tensor = self.norm(embedded)
        return x


class LayerPosition(nn.Module):
    """A layer's own table of positions, added to its input (Fang et al. 2021, 3.3)."""

    def __init__(self, spec: PatchSpec):
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(torch.zeros(spec.positions, spec.hidden_size))

    def forward(self, x: Tensor, pixel_values: Tensor) -> Tensor:
        """x (B,S,W), pixel_values (B,channels,height,width) -> y (B,S,W)."""
        height, width = pixel_values.shape[2:]
        size = height // self.spec.patch_size, width // self.spec.patch_size
        return x + resized(self.weight, size, self.spec.grid, self.spec.tokens, self.spec.antialias)


def resized(
    table: Tensor, size: Sequence[int], grid: tuple[int, int], tokens: int = 0, antialias: bool = False
) -> Tensor:
    """Positions of a `grid`, interpolated to a `size`; those of `tokens` before and others behind are kept.

    table (tokens + patches + others,W), size (2) -> (tokens + rows * columns + others,W), bicubic.
    """
    end = tokens + grid[0] * grid[1]
    # Channels last, a view of the table: PyTorch's antialias is wrong for one column in the other layout.
    places = table[tokens:end].unflatten(0, grid)[None].permute(0, 3, 1, 2)  # (1, W, *grid)
    places = interpolate(
        places, tuple(size), mode="bicubic", align_corners=False, antialias=antialias
    )  # (1, W, rows, columns)
    return torch.cat([table[:tokens], places[0].flatten(1).mT, table[end:]])


Embedding = PatchEmbedding
