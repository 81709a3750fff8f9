"""Patches of images of any shape (Tschannen et al. 2025, 2.4.2)."""

import torch
from torch import Tensor, nn

from txexport.spec import NaflexSpec
from txmodels.linear import Linear


class NaflexEmbedding(nn.Module):
    """Patches of images of any shape, projected, plus positions interpolated to each shape."""

    def __init__(self, spec: NaflexSpec):
        super().__init__()
        self.spec = spec
        self.position = nn.Embedding(spec.length, spec.hidden_size)
        self.project = Linear(spec.numbers, spec.hidden_size)

    def forward(
        self, pixel_values: Tensor, attention_mask: Tensor, spatial_shapes: Tensor
    ) -> tuple[Tensor, Tensor]:
        """pixel_values (B,P,numbers), attention_mask (B,P), spatial_shapes (B,2) -> x (B,P,W), mask (B,P)."""
        table = self.position.weight
        shares = position_shares(self.spec.side, spatial_shapes, pixel_values.shape[1])  # (B, P, side * side)
        position = shares.to(table.dtype) @ table  # (B, P, W)
        x = self.project(pixel_values) + position
        return x, attention_mask


def position_shares(side: int, spatial_shapes: Tensor, count: int) -> Tensor:
    """spatial_shapes (B,2), count P -> the share of each position in that of each patch (B,P,side*side).

    Shares are linear in the distance of rows and of columns, over at least one position and as many as a
    patch spans, and add up to 1: bilinear with antialias. Padding has those of the first patch.
    """
    columns = spatial_shapes[:, 1:]  # (B, 1)
    number = torch.arange(count, device=spatial_shapes.device)  # (P)
    row = number // columns  # (B, P)
    column = number - row * columns
    inside = number < spatial_shapes.prod(dim=1, keepdim=True)  # (B, P)
    where = torch.stack([row, column], dim=2) * inside[:, :, None]  # (B, P, 2)
    kind = torch.get_default_dtype()
    scale = side / spatial_shapes[:, None].to(kind)  # (B, 1, 2)
    centre = (where.to(kind) + 0.5) * scale - 0.5  # (B, P, 2)
    grid = torch.arange(side, device=centre.device, dtype=kind)
    away = (grid - centre[..., None]).abs()  # (B, P, 2, side)
    near = torch.relu(1 - away / scale.clamp(min=1)[..., None])
    share = near / near.sum(dim=3, keepdim=True)
    down, across = share[:, :, 0, :, None], share[:, :, 1, None, :]
    shares = (down * across).flatten(2)
    return shares


Embedding = NaflexEmbedding
