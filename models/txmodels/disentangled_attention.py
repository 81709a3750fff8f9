"""Multi-head attention of contents and of relative positions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import DisentangledAttentionSpec, RelativeVectorsSpec
from txmodels.attention import merge, split
from txmodels.linear import Linear
from txmodels.mask import biased_mask
from txmodels.norm import Norm
from txmodels.scaled_dot_product_attention import scores, weighted_sum


class RelativeVectors(nn.Module):
    """Vectors of relative positions, which all layers project (He et al. 2021, 3.1)."""

    def __init__(self, spec: RelativeVectorsSpec, hidden_size: int):
        super().__init__()
        self.spec = spec
        self.weight = nn.Parameter(torch.empty(2 * spec.span, hidden_size))
        self.norm = Norm(spec.norm) if spec.norm else nn.Identity()

    def forward(self, input_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """input_ids (B,S) -> the P vectors that S tokens need (1,P,W), of_query and of_key (S,S).

        For query s and key t, whose vector is p: of_query is the flat index of (s, p) among S rows of P
        numbers, of_key that of (t, p).
        """
        span, last = self.spec.span, self.spec.max_distance
        table = torch.tensor(self.spec.bucket_of_distance(), device=input_ids.device)  # (max_distance + 1)
        tokens = torch.arange(input_ids.shape[1], device=input_ids.device)  # (S)
        apart = tokens[:, None] - tokens  # (S, S)
        buckets = table[apart.abs().clamp(max=last)] * apart.sign()
        reach = int(table[min(input_ids.shape[1] - 1, last)])
        vectors = self.norm(self.weight[span - reach : span + reach + 1])[None]  # (1, P, W)
        places = buckets.clamp(max=span - 1) + reach  # (S, S)
        rows = tokens * vectors.shape[1]  # (S)
        of_query, of_key = rows[:, None] + places, rows + places
        return vectors, of_query, of_key


def together(x: Tensor, vectors: Tensor) -> Tensor:
    """x (B,S,W), vectors (1,P,W) -> one row (1,B*S+P,W), so that one product projects both."""
    y = torch.cat([x.flatten(0, 1)[None], vectors], dim=1)
    return y


def apart(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Projected rows (1,B*S+P,W) of `together`, x (B,S,...) -> contents (B,S,W), positions (1,P,W)."""
    count = x.shape[0] * x.shape[1]
    contents = y[:, :count].reshape(x.shape[0], x.shape[1], -1)
    positions = y[:, count:]
    return contents, positions


def at_places(x: Tensor, vectors: Tensor, places: Tensor, scale: float) -> Tensor:
    """x (B,N,S,H), vectors (1,N,P,H), flat indices places (S,S) of S rows of P products -> (B,N,S,S)."""
    products = x @ (vectors * scale).mT  # (B, N, S, P)
    y = products.flatten(2)[:, :, places]  # (B, N, S, S)
    return y


def mixed_with_bias(
    weighted: bool, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float
) -> tuple[Tensor, ...]:
    """q, k and v (B,N,S,H), bias (B,N,S,S) -> mixed values (B,S,N*H), and if `weighted` weights (B,N,S,S)."""
    if not weighted:
        return (merge(F.scaled_dot_product_attention(q, k, v, bias, scale=scale)),)
    weights = (scores(q, k, scale) + bias).softmax(dim=-1)
    return merge(weighted_sum(weights, v)), weights


class DisentangledAttention(nn.Module):
    """Attention of contents to contents and to relative positions (He et al. 2021, 3.1).

    Returns its weights if `weighted`.
    """

    def __init__(self, spec: DisentangledAttentionSpec, weighted: bool = False):
        super().__init__()
        self.spec, self.weighted = spec, weighted
        inner = spec.num_heads * spec.head_dim
        self.q = Linear(spec.hidden_size, inner)
        self.k = Linear(spec.hidden_size, inner)
        self.v = Linear(spec.hidden_size, inner)
        self.o = Linear(inner, spec.hidden_size)
        if spec.content_to_position and not spec.shared:
            self.k_position = Linear(spec.hidden_size, inner)
        if spec.position_to_content and not spec.shared:
            self.q_position = Linear(spec.hidden_size, inner)

    def forward(
        self, x: Tensor, mask: Tensor, vectors: Tensor, of_query: Tensor, of_key: Tensor
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), mask (B,1,S,S), relative positions (1,P,W) -> y (B,S,W), and weights (B,N,S,S).

        of_query and of_key (S,S) are indices as in RelativeVectors.
        """
        spec, scale = self.spec, self.spec.scale
        q, q_position = self._projected("q", spec.position_to_content, x, vectors)
        k, k_position = self._projected("k", spec.content_to_position, x, vectors)
        v = split(self.v(x), spec.num_heads)  # (B, N, S, H)
        terms = []
        if k_position is not None:
            terms.append(at_places(q, k_position, of_query, scale))  # (B, N, S, S)
        if q_position is not None:
            terms.append(at_places(k, q_position, of_key, scale))  # (B, N, S, S)
        bias = biased_mask(terms[0] if len(terms) == 1 else terms[0] + terms[1], mask)
        mixed, *weights = mixed_with_bias(self.weighted, q, k, v, bias, scale)  # (B, S, N*H)
        y: Tensor = self.o(mixed)  # (B, S, W)
        return y, *weights

    def _projected(
        self, name: str, related: bool, x: Tensor, vectors: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """x (B,S,W), vectors (1,P,W) -> heads of queries or keys (B,N,S,H), and of positions (1,N,P,H)."""
        linear, heads = self.get_submodule(name), self.spec.num_heads
        if not related:
            return split(linear(x), heads), None
        if self.spec.shared:
            contents, positions = apart(linear(together(x, vectors)), x)
        else:
            contents, positions = linear(x), self.get_submodule(f"{name}_position")(vectors)
        return split(contents, heads), split(positions, heads)
