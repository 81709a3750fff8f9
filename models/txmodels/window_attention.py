"""Multi-head attention within windows of a grid."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import WindowAttentionSpec
from txmodels.linear import Linear

LEAST = 1e-12  # length that a vector is divided by


class _RelativeTable(nn.Module):
    """A learned bias for every distance and head."""

    def __init__(self, spec: WindowAttentionSpec):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(spec.distances, spec.num_heads))

    def forward(self) -> Tensor:
        """The biases (P,N) of P distances."""
        return self.weight


class ContinuousBias(nn.Module):
    """The bias of every distance from its logarithm, by a network (Liu et al. 2022, 3.3)."""

    def __init__(self, spec: WindowAttentionSpec):
        super().__init__()
        assert spec.cosine is not None
        self.largest = spec.cosine.largest_bias
        self.up = Linear(2, spec.cosine.intermediate_size)
        self.down = Linear(spec.cosine.intermediate_size, spec.num_heads, bias=False)
        self.register_buffer("coordinates", torch.tensor(spec.coordinates()), persistent=False)

    def forward(self) -> Tensor:
        """The biases (P,N) of P distances."""
        assert isinstance(self.coordinates, Tensor)
        biases: Tensor = self.down(F.relu(self.up(self.coordinates.to(self.up.weight))))
        return self.largest * torch.sigmoid(biases)


class WindowAttention(nn.Module):
    """Attention of every vector to its window (Liu et al. 2021, 3.2); by cosines (Liu et al. 2022, 3.2)."""

    def __init__(self, spec: WindowAttentionSpec):
        super().__init__()
        self.spec, width = spec, spec.hidden_size
        self.q = Linear(width, width, spec.bias)
        self.k = Linear(width, width, spec.key_bias)
        self.v = Linear(width, width, spec.bias)
        self.o = Linear(width, width)
        self.relative = _RelativeTable(spec) if spec.cosine is None else ContinuousBias(spec)
        self.scale = nn.Parameter(torch.zeros(spec.num_heads, 1, 1)) if spec.cosine is not None else None

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        rows: Tensor | None,
        columns: Tensor | None,
        own_rows: Tensor | None,
        own_columns: Tensor | None,
    ) -> Tensor:
        """x (B,R,C,W) -> y (B,R,C,W); N heads of H numbers, T vectors in each of M windows.

        Of shifted windows, `window_shift` gives mask (M,1,T,T), rows (R'), columns (C'), own_rows (R) and
        own_columns (C) for the padded grid (R',C').
        """
        window, heads = self.spec.window, self.spec.num_heads
        padded = whole_windows(window, x)  # (B, R', C', W)
        if rows is not None and columns is not None:
            padded = padded[:, rows][:, :, columns]
        q, k, v = (window_rows(window, heads, project(padded)) for project in (self.q, self.k, self.v))
        bias = pair_bias(window, self.relative())  # (N, T, T)
        scale = None
        if self.scale is not None:
            largest = math.log(self.spec.cosine.largest_scale)  # type: ignore[union-attr]
            q, k = F.normalize(q, dim=-1, eps=LEAST), F.normalize(k, dim=-1, eps=LEAST)
            q, scale = q * torch.clamp(self.scale, max=largest).exp(), 1.0
        if mask is not None:
            bias = bias + mask  # (M, N, T, T)
        mixed = F.scaled_dot_product_attention(q, k, v, bias, scale=scale)  # (B, M, N, T, H)
        grid = window_grid(window, mixed, padded)  # (B, R', C', W)
        if own_rows is not None and own_columns is not None:
            grid = grid[:, own_rows][:, :, own_columns]
        else:
            grid = grid[:, : x.shape[1], : x.shape[2]]
        y: Tensor = self.o(grid)  # (B, R, C, W)
        return y


def whole_windows(window: int, x: Tensor) -> Tensor:
    """x (B,R,C,W) -> padded (B,R',C',W): zeros at the bottom and on the right, to whole windows."""
    padded = F.pad(x, (0, 0, 0, -x.shape[2] % window, 0, -x.shape[1] % window))
    return padded


def window_rows(window: int, heads: int, x: Tensor) -> Tensor:
    """x (B,R',C',W) -> (B,M,N,T,H), every window and head together."""
    parts = x.unflatten(3, (heads, -1)).unflatten(2, (-1, window)).unflatten(1, (-1, window))
    y = parts.permute(0, 1, 3, 5, 2, 4, 6).flatten(4, 5).flatten(1, 2)
    return y


def window_grid(window: int, heads: Tensor, padded: Tensor) -> Tensor:
    """Windows and heads (B,M,N,T,H), padded (B,R',C',W) -> (B,R',C',W)."""
    across = padded.shape[2] // window
    parts = heads.unflatten(3, (window, window)).unflatten(1, (-1, across))  # (B, R'/w, C'/w, N, w, w, H)
    y = parts.permute(0, 1, 4, 2, 5, 3, 6).reshape(padded.shape)
    return y


def pair_bias(window: int, biases: Tensor) -> Tensor:
    """biases (P,N) of P distances -> bias (N,T,T) of each query and key in a window."""
    order = torch.arange(window**2, device=biases.device)  # (T)
    rows, columns = order // window, order % window
    down = rows[:, None] - rows + window - 1  # (T, T)
    across = columns[:, None] - columns + window - 1
    picked = biases[down * (2 * window - 1) + across]  # (T, T, N)
    bias = picked.permute(2, 0, 1)
    return bias


def window_shift(spec: WindowAttentionSpec, x: Tensor) -> tuple[Tensor, ...]:
    """The shift of a grid's windows: x (B,R,C,W), padded to (R',C') -> mask, and the order of rows.

    mask (M,1,T,T) is added to scores: `hidden` for pairs from different edges of the grid. rows (R') and
    columns (C') are the order in which the padded grid is read, own_rows (R) and own_columns (C) the places
    of the grid in that order.
    """
    window, (height, width), device = spec.window, x.shape[1:3], x.device
    shift = torch.full((1,), spec.shift, device=device)
    if not spec.always_shifted:
        least = torch.full((1,), torch.sym_min(height, width), device=device)
        shift = shift * (least > window)
    orders, regions = [], []
    for size in (height, width):
        padded = size + -size % window
        order = torch.arange(padded, device=device)
        region = (order >= padded - window).long() + (order >= padded - shift).long()
        regions.append(region.unflatten(0, (-1, window)))
        back = (torch.arange(size, device=device) + padded - shift) % padded
        orders.append(((order + shift) % padded, back))
    (rows, own_rows), (columns, own_columns) = orders
    down, across = regions
    parts = (down[:, None, :, None] * 3 + across[None, :, None, :]).flatten(2).flatten(0, 1)  # (M, T)
    same = parts[:, :, None] == parts[:, None, :]  # (M, T, T)
    mask = torch.where(same, 0.0, spec.hidden).to(x)[:, None]  # (M, 1, T, T)
    return mask, rows, columns, own_rows, own_columns
