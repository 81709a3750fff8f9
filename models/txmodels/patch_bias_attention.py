"""Multi-head attention of an image's patches with biases of distances."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import PatchBiasAttentionSpec
from txmodels.attention import merge, split
from txmodels.linear import Linear


class PatchBiasAttention(nn.Module):
    """Attention over a vector of the image and its patches (Bao et al. 2022, 2.4)."""

    def __init__(self, spec: PatchBiasAttentionSpec):
        super().__init__()
        self.spec, inner = spec, spec.num_heads * spec.head_dim
        self.q = Linear(spec.hidden_size, inner)
        self.k = Linear(spec.hidden_size, inner, bias=False)
        self.v = Linear(spec.hidden_size, inner)
        self.o = Linear(inner, spec.hidden_size)
        self.relative = nn.Embedding(spec.distances, spec.num_heads)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> y (B,S,W); the first of S vectors is the image's."""
        q, k, v = (split(part(x), self.spec.num_heads) for part in (self.q, self.k, self.v))
        bias = patch_bias((self.spec.rows, self.spec.columns), self.relative.weight)  # (1, N, S, S)
        y: Tensor = self.o(merge(F.scaled_dot_product_attention(q, k, v, bias)))
        return y


def patch_bias(grid: tuple[int, int], biases: Tensor) -> Tensor:
    """biases (P,N) of P distances -> bias (1,N,S,S) of each pair of vectors, the image's first."""
    rows, columns = grid
    order = torch.arange(rows * columns, device=biases.device)  # (S - 1)
    row, column = order // columns, order % columns
    down = row[:, None] - row + rows - 1
    across = column[:, None] - column + columns - 1
    between, last = down * (2 * columns - 1) + across, len(biases) - 1
    every = torch.full((rows * columns + 1,) * 2, last, device=biases.device)  # (S, S)
    every[0, 1:], every[1:, 0], every[1:, 1:] = last - 2, last - 1, between
    bias = biases[every].permute(2, 0, 1)[None]
    return bias
