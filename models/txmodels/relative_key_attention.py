"""Multi-head attention of contents, and of a learned vector for each distance of a key from the query."""

import torch
from torch import Tensor, nn

from txexport.spec import RelativeKeyAttentionSpec
from txmodels.attention import split
from txmodels.disentangled_attention import at_places, mixed_with_bias
from txmodels.linear import Linear
from txmodels.mask import biased_mask


def clipped_distances(spec: RelativeKeyAttentionSpec, x: Tensor) -> Tensor:
    """x (B,S,W) -> of_query (S,S): flat index of query s and its distance to key t, among S rows of P."""
    tokens = torch.arange(x.shape[1], device=x.device)  # (S)
    distances = (tokens - tokens[:, None]).clamp(-spec.left, spec.right)  # (S, S)
    of_query = tokens[:, None] * spec.distances + (distances + spec.left)
    return of_query


class RelativeKeyAttention(nn.Module):
    """Attention of contents to contents and to distances (Shaw et al. 2018, 3.2).

    Returns its weights if `weighted`.
    """

    def __init__(self, spec: RelativeKeyAttentionSpec, weighted: bool = False):
        super().__init__()
        self.spec, self.weighted = spec, weighted
        inner = spec.num_heads * spec.head_dim
        self.q = Linear(spec.hidden_size, inner)
        self.k = Linear(spec.hidden_size, inner)
        self.v = Linear(spec.hidden_size, inner)
        self.o = Linear(inner, spec.hidden_size)
        self.distance = nn.Embedding(spec.distances, spec.head_dim)

    def forward(self, x: Tensor, mask: Tensor | None, of_query: Tensor) -> tuple[Tensor, ...]:
        """x (B,S,W), mask (B,1,S,S), of_query (S,S) as in `clipped_distances` -> y (B,S,W).

        If `weighted`, also weights (B,N,S,S).
        """
        heads, scale = self.spec.num_heads, self.spec.scale
        q = split(self.q(x), heads)  # (B, N, S, H)
        k = split(self.k(x), heads)
        v = split(self.v(x), heads)
        distances = self.distance.weight[None, None]  # (1, 1, P, H)
        related = at_places(q, distances, of_query, scale)  # (B, N, S, S)
        bias = related if mask is None else biased_mask(related, mask)
        mixed, *weights = mixed_with_bias(self.weighted, q, k, v, bias, scale)  # (B, S, N*H)
        y: Tensor = self.o(mixed)  # (B, S, W)
        return y, *weights
