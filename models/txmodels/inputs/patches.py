"""Images in square patches (Dosovitskiy et al. 2021, 3.1)."""

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
        self.position = nn.Embedding(spec.positions, width) if spec.positioned else None
        self.project = nn.Conv2d(spec.channels, width, size, size, bias=spec.bias)
        self.norm = Norm(spec.norm) if spec.norm is not None else nn.Identity()

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B,channels,height,width) -> x (B,S,W)."""
        grid = self.project(pixel_values)  # (B, W, rows, columns)
        patches = grid.flatten(2).mT  # (B, S - tokens, W)
        tokens = [
            token(patches.new_zeros(len(patches), 1, dtype=torch.long)) for token in self.tokens
        ]  # (B, 1, W) each
        embedded = torch.cat([*tokens, patches], dim=1)  # (B, S - registers, W)
        if self.position is not None:
            position = self.position.weight  # (S - registers, W)
            if self.spec.any_size:
                position = resized(position, grid, self.spec.tokens, self.spec.grid, self.spec.antialias)
            embedded = embedded + position
        if self.registers is not None:
            register_ids = torch.arange(self.spec.registers, device=embedded.device).expand(len(embedded), -1)
            before, behind = embedded[:, : self.spec.tokens], embedded[:, self.spec.tokens :]
            embedded = torch.cat([before, self.registers(register_ids), behind], dim=1)  # (B, S, W)
        x: Tensor = self.norm(embedded)
        return x


def resized(
    table: Tensor, grid: Tensor, tokens: int, size: tuple[int, int], antialias: bool = False
) -> Tensor:
    """The table of `tokens` and then `size` positions, interpolated to a grid.

    table (tokens + size[0] * size[1],W), grid (B,W,rows,columns) -> (tokens + rows * columns,W), bicubic.
    """
    # Channels last, a view of the table: PyTorch's antialias is wrong for one column in the other layout.
    places = table[tokens:].unflatten(0, size)[None].permute(0, 3, 1, 2)  # (1, W, *size)
    places = interpolate(places, grid.shape[2:], mode="bicubic", align_corners=False, antialias=antialias)
    return torch.cat([table[:tokens], places[0].flatten(1).mT])


Embedding = PatchEmbedding
