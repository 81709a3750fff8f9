"""Attention over a grid, or windows of it, with learned vectors of the distances in rows and columns."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import GridAttentionSpec
from txmodels.attention import merge, split
from txmodels.linear import Linear
from txmodels.window_attention import whole_windows, window_grid, window_rows


class GridAttention(nn.Module):
    """Attention of every vector to its grid or window (Li et al. 2022, 3; Li et al. 2021, 4.1)."""

    def __init__(self, spec: GridAttentionSpec):
        super().__init__()
        self.spec, width = spec, spec.hidden_size
        self.q = Linear(width, width, spec.bias)
        self.k = Linear(width, width, spec.bias)
        self.v = Linear(width, width, spec.bias)
        self.o = Linear(width, width)
        self.row_position = self.column_position = None
        if spec.relative:
            self.row_position = nn.Embedding(2 * spec.rows - 1, spec.head_dim)
            self.column_position = nn.Embedding(2 * spec.columns - 1, spec.head_dim)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R,C,W); N heads of H numbers, T vectors in a window or in the grid."""
        spec, padded = self.spec, x
        if spec.windowed:
            padded = whole_windows(spec.rows, x)  # (B, R', C', W)
            parts = (
                window_rows(spec.rows, spec.num_heads, part(padded)) for part in (self.q, self.k, self.v)
            )
            q, k, v = (part.flatten(0, 1) for part in parts)  # (B*M, N, T, H)
        else:
            q, k, v = (split(part(x).flatten(1, 2), spec.num_heads) for part in (self.q, self.k, self.v))
        scaled = q * spec.head_dim**-0.5
        if self.row_position is not None and self.column_position is not None:
            scaled, k = with_distances(
                spec, q, scaled, k, self.row_position.weight, self.column_position.weight
            )
        heads = F.scaled_dot_product_attention(scaled, k, v, scale=1.0)  # (B*M, N, T, H)
        if spec.windowed:
            grid = window_grid(spec.rows, heads.unflatten(0, (x.shape[0], -1)), padded)
            y: Tensor = self.o(grid[:, : x.shape[1], : x.shape[2]])
        else:
            y = self.o(merge(heads)).unflatten(1, x.shape[1:3])  # (B, R, C, W)
        return y


def with_distances(
    spec: GridAttentionSpec,
    q: Tensor,
    scaled: Tensor,
    k: Tensor,
    row_position: Tensor,
    column_position: Tensor,
) -> tuple[Tensor, Tensor]:
    """Queries and keys whose products have the terms of distances in rows and columns.

    q, scaled and k (B,N,T,H), row_position (2R-1,H), column_position (2C-1,H) -> queries and keys
    (B,N,T,H+R+C): a query's numbers are followed by its products with the vectors of every row and column,
    a key's by a 1 for its own row and for its own column.
    """
    rows, columns, device = spec.rows, spec.columns, q.device
    grid = q.unflatten(2, (rows, columns))  # (B, N, R, C, H)
    row, column = torch.arange(rows, device=device), torch.arange(columns, device=device)
    down = row_position[row[:, None] - row + rows - 1]  # (R, R, H), of each query's row and each key's
    across = column_position[column[:, None] - column + columns - 1]  # (C, C, H)
    by_row = torch.einsum("bnrch,rkh->bnrck", grid, down).flatten(2, 3)  # (B, N, T, R)
    by_column = torch.einsum("bnrch,ckh->bnrck", grid, across).flatten(2, 3)  # (B, N, T, C)
    indicators = torch.cat(
        [
            torch.eye(rows, device=device).repeat_interleave(columns, 0),
            torch.eye(columns, device=device).repeat(rows, 1),
        ],
        dim=1,
    ).to(k)  # (T, R + C)
    keys = torch.cat([k, indicators.expand(*k.shape[:2], -1, -1)], dim=3)
    return torch.cat([scaled, by_row, by_column], dim=3), keys
