"""Words and their layout as two flows with one attention (Wang et al. 2022, LiLT)."""

import torch
from torch import Tensor, nn

from txexport.spec import AttentionSpec, BlockSpec, FeedForwardSpec, LayoutEmbeddingSpec, NormSpec
from txmodels.attention import merge, split
from txmodels.feedforward import FeedForward
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.page import BoxTables
from txmodels.scaled_dot_product_attention import (
    attention_weights,
    scaled_dot_product_attention,
    weighted_sum,
)


class LayoutEmbedding(nn.Module):
    """Vectors of boxes, projected, and of positions, added and normalised (Wang et al. 2022, 3.1.2)."""

    def __init__(self, spec: LayoutEmbeddingSpec):
        super().__init__()
        self.offset, width = spec.position.offset, spec.hidden_size
        self.boxes, self.project = BoxTables(spec.boxes), Linear(spec.boxes.size, width)
        self.position = nn.Embedding(spec.position.size, width)
        self.norm = Norm(spec.norm)

    def forward(self, boxes: Tensor, positions: Tensor) -> Tensor:
        """boxes (B,S,4), positions (B,S) or (1,S) -> layout (B,S,L)."""
        placed = self.project(self.boxes(boxes)) + self.position(positions + self.offset)
        layout: Tensor = self.norm(placed)
        return layout


class _Flow(nn.Module):
    """One flow's projections for attention, and what follows it, in post-norm (Wang et al. 2022, 3.1.3).

    Without a network it ends with its queries and keys.
    """

    def __init__(self, attention: AttentionSpec, feed_forward: FeedForwardSpec | None, norm: NormSpec):
        super().__init__()
        width, inner = attention.hidden_size, attention.num_heads * attention.head_dim
        self.num_heads, self.ends = attention.num_heads, feed_forward is None
        self.attention = nn.ModuleDict({name: Linear(width, inner) for name in ("q", "k")})
        if feed_forward is not None:
            self.attention.update({"v": Linear(width, inner), "o": Linear(inner, width)})
            self.attention_norm = Norm(norm)
            self.feed_forward, self.feed_forward_norm = FeedForward(feed_forward), Norm(norm)

    def heads(self, name: str, x: Tensor) -> Tensor:
        """x (B,S,W) -> queries "q", keys "k" or values "v" (B,N,S,H)."""
        return split(self.attention[name](x), self.num_heads)

    def ended(self, x: Tensor, heads: Tensor) -> Tensor:
        """The flow x (B,S,W) and its mixed values (B,N,S,H) -> y (B,S,W)."""
        attended = self.attention_norm(x + self.attention["o"](merge(heads)))  # (B, S, W)
        y: Tensor = self.feed_forward_norm(attended + self.feed_forward(attended))
        return y


class LayoutBlock(_Flow):
    """A layer of words and of their layout, whose scores are added (Wang et al. 2022, 3.1.3)."""

    def __init__(self, spec: BlockSpec, weighted: bool = False):
        assert spec.layout is not None
        assert isinstance(spec.feed_forward, FeedForwardSpec)
        super().__init__(spec.dense, spec.feed_forward, spec.norm)
        self.layout = _Flow(spec.layout.attention, spec.layout.feed_forward, spec.layout.norm)
        self.weighted, self.size = weighted, spec.dense.head_dim
        # Of layout's queries: attention divides by the square root of the words' head size.
        self.factor = (self.size / spec.layout.attention.head_dim) ** 0.5

    def forward(self, x: Tensor, layout: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """x (B,S,W), layout (B,S,L), mask (B,1,S,S) -> both, and if `weighted` weights (B,N,S,S)."""
        heads, *weights = self.mixed(x, layout, mask)  # (B, N, S, H+h)
        y = self.ended(x, heads[..., : self.size])
        return y, self.layout.ended(layout, heads[..., self.size :]), *weights

    def mixed(self, x: Tensor, layout: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """Mixed values of words and, unless it ends, of layout side by side (B,N,S,H+h), and weights."""
        flows, scale = [(self, x), (self.layout, layout)], self.size**-0.5
        queries = [self.heads("q", x), self.layout.heads("q", layout) * self.factor]
        q = torch.cat(queries, dim=3)  # (B, N, S, H+h)
        k = torch.cat([flow.heads("k", part) for flow, part in flows], dim=3)
        v = torch.cat([flow.heads("v", part) for flow, part in flows if not flow.ends], dim=3)
        if not self.weighted:
            return (scaled_dot_product_attention(q, k, v, mask, scale),)
        weights = attention_weights(q, k, mask, scale)
        return weighted_sum(weights, v), weights


class LastLayoutBlock(LayoutBlock):
    """As LayoutBlock, of a layer in which the layout ends."""

    def forward(self, x: Tensor, layout: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """x (B,S,W), layout (B,S,L), mask (B,1,S,S) -> y (B,S,W), and if `weighted` weights (B,N,S,S)."""
        heads, *weights = self.mixed(x, layout, mask)  # (B, N, S, H)
        return self.ended(x, heads), *weights
