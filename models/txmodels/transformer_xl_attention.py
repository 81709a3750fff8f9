"""Multi-head attention of contents, sinusoids of distances, and equality of segments."""

import torch
from torch import Tensor, nn

from txexport.spec import SinusoidVectorsSpec, TransformerXLAttentionSpec
from txmodels.attention import split
from txmodels.disentangled_attention import at_places, mixed_with_bias
from txmodels.linear import Linear
from txmodels.mask import biased_mask


def sinusoid_vectors(spec: SinusoidVectorsSpec, input_ids: Tensor) -> tuple[Tensor, Tensor]:
    """input_ids (B,S) -> vectors of the P distances of a query after a key (1,P,W), of_query (S,S).

    of_query is the flat index of query s and the distance from it to key t, among S rows of P numbers.
    """
    length = input_ids.shape[1]
    tokens = torch.arange(length, device=input_ids.device)  # (S)
    distances = torch.arange(1 - length, length, device=input_ids.device)  # (P)
    if spec.clamp is not None:
        distances = distances.clamp(-spec.clamp, spec.clamp)
    frequencies = torch.tensor(spec.frequencies, device=input_ids.device)
    angles = distances[:, None].float() * frequencies  # (P, W / 2)
    if spec.interleaved:
        vectors = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[None]  # (1, P, W)
    else:
        vectors = torch.cat([angles.sin(), angles.cos()], dim=1)[None]
    places = tokens[:, None] - tokens + (length - 1)  # (S, S)
    of_query = tokens[:, None] * (2 * length - 1) + places
    return vectors, of_query


def other_segments(token_type_ids: Tensor) -> Tensor:
    """token_type_ids (B,S) -> apart (B,1,S,S): true if key and query are of different segments."""
    apart = (token_type_ids[:, :, None] != token_type_ids[:, None, :])[:, None]  # (B, 1, S, S)
    return apart


class TransformerXLAttention(nn.Module):
    """Attention of contents to contents, distances (Dai et al. 2019, 3.3) and segments (Yang et al. 2019).

    Returns its weights if `weighted`.
    """

    def __init__(self, spec: TransformerXLAttentionSpec, weighted: bool = False):
        super().__init__()
        self.spec, self.weighted = spec, weighted
        inner = spec.num_heads * spec.head_dim
        self.q = Linear(spec.hidden_size, inner, spec.bias)
        self.k = Linear(spec.hidden_size, inner, spec.bias)
        self.v = Linear(spec.hidden_size, inner, spec.bias)
        self.k_position = Linear(spec.hidden_size, inner, bias=False)
        self.o = Linear(inner, spec.hidden_size, spec.bias)
        self.content_bias = nn.Parameter(torch.zeros(inner))
        self.position_bias = nn.Parameter(torch.zeros(inner))
        if spec.segmented:
            self.segment_bias = nn.Parameter(torch.zeros(inner))
            self.segment = nn.Embedding(2, inner)

    def forward(
        self, x: Tensor, mask: Tensor | None, vectors: Tensor, of_query: Tensor, apart: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), mask and apart (B,1,S,S), distances (1,P,W) -> y (B,S,W), and weights (B,N,S,S).

        of_query (S,S) is as in `sinusoid_vectors`.
        """
        heads, scale, q = self.spec.num_heads, self.spec.scale, self.q(x)
        contents = split(q + self.content_bias, heads)  # (B, N, S, H)
        k = split(self.k(x), heads)
        v = split(self.v(x), heads)
        distances = split(self.k_position(vectors), heads)  # (1, N, P, H)
        related = at_places(split(q + self.position_bias, heads), distances, of_query, scale)  # (B, N, S, S)
        if apart is not None:
            segments = split(self.segment.weight[None], heads)  # (1, N, 2, H)
            both = split(q + self.segment_bias, heads) @ (segments * scale).mT  # (B, N, S, 2)
            same, other = both[..., :1], both[..., 1:]  # (B, N, S, 1)
            related = related + torch.where(apart, other, same)
        bias = related if mask is None else biased_mask(related, mask)  # (B, N, S, S)
        mixed, *weights = mixed_with_bias(self.weighted, contents, k, v, bias, scale)  # (B, S, N*H)
        y: Tensor = self.o(mixed)  # (B, S, W)
        return y, *weights
