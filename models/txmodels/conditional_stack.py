"""Stacks of learned queries that read an image near points."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import ConditionalStackSpec, FeedForwardSpec, QueryBlockSpec, QueryLayersSpec
from txmodels.attention import merge, split
from txmodels.feedforward import FeedForward
from txmodels.heads.boxes import perceptron
from txmodels.inputs import signal_embedding
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.phrases import number_sines
from txmodels.query_stack import QueryLayer, resized_mask, sine_positions
from txmodels.stack import Given


class MutualAttention(nn.Module):
    """Attention of vectors to one another, with projections of positions (Meng et al. 2021, 3.2)."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.num_heads = heads
        self.q, self.q_position = Linear(width, width), Linear(width, width)
        self.k, self.k_position = Linear(width, width), Linear(width, width)
        self.v, self.o = Linear(width, width), Linear(width, width)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """x and positions (B,Q,W) -> y (B,Q,W)."""
        q = split(self.q(x) + self.q_position(positions), self.num_heads)  # (B, N, Q, H)
        k = split(self.k(x) + self.k_position(positions), self.num_heads)
        v = split(self.v(x), self.num_heads)
        y: Tensor = self.o(merge(F.scaled_dot_product_attention(q, k, v)))
        return y


class ConditionalAttention(nn.Module):
    """Attention to a map by scores of contents and scores of positions (Meng et al. 2021, 3.2)."""

    def __init__(self, width: int, heads: int, first: bool):
        super().__init__()
        self.num_heads, self.first = heads, first
        self.q, self.q_sine = Linear(width, width), Linear(width, width)
        if first:
            self.q_position = Linear(width, width)
        self.k, self.k_position = Linear(width, width), Linear(width, width)
        self.v, self.o = Linear(width, width), Linear(width, width)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        sines: Tensor,
        image: Tensor,
        image_positions: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """x, positions and sines (B,Q,W), a map and its positions (B,S,W), mask (B,1,Q,S) -> y (B,Q,W).

        In the `first` layer, contents have positions too.
        """
        q, k, placed = self.q(x), self.k(image), self.k_position(image_positions)
        if self.first:
            q, k = q + self.q_position(positions), k + placed
        query, key, sine, place, v = (
            split(one, self.num_heads) for one in (q, k, self.q_sine(sines), placed, self.v(image))
        )
        query, key = torch.cat([query, sine], dim=3), torch.cat([key, place], dim=3)  # (B, N, Q or S, 2 * H)
        y: Tensor = self.o(merge(F.scaled_dot_product_attention(query, key, v, mask)))
        return y


class ConditionalLayer(nn.Module):
    """Attention to one another and to a map, and a network (Meng et al. 2021, 3.1)."""

    def __init__(self, spec: QueryBlockSpec, layers: QueryLayersSpec, first: bool):
        super().__init__()
        width = spec.hidden_size
        self.attention = MutualAttention(width, layers.num_heads)
        self.attention_norm = Norm(spec.norm)
        self.cross_attention = ConditionalAttention(width, layers.num_heads, first)
        self.cross_attention_norm = Norm(spec.norm)
        self.feed_forward = FeedForward(FeedForwardSpec(width, layers.intermediate_size, spec.activation))
        self.feed_forward_norm = Norm(spec.norm)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        sines: Tensor,
        image: Tensor,
        image_positions: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """x, positions and sines (B,Q,W), a map and its positions (B,S,W), mask (B,1,Q,S) -> y (B,Q,W)."""
        x = self.attention_norm(x + self.attention(x, positions))
        read = self.cross_attention(x, positions, sines, image, image_positions, mask)
        x = self.cross_attention_norm(x + read)
        y: Tensor = self.feed_forward_norm(x + self.feed_forward(x))
        return y


class PointSines(nn.Module):
    """Points of learned queries, and their sines (Meng et al. 2021, 3.2)."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList([Linear(width, width), Linear(width, 2)])

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """positions (B,Q,W) -> sines (B,Q,W), boxes (B,Q,4) of points, whose sides are halves."""
        points = torch.sigmoid(perceptron(self.layers, positions))  # (B, Q, 2)
        sines = number_sines(self.width // 2, points.flip(2))
        references = torch.cat([points, torch.full_like(points, 0.5)], dim=2)  # (B, Q, 4)
        return sines, references


class ScaledSines(nn.Module):
    """Sines of points as queries scale them (Meng et al. 2021, 3.2)."""

    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.ModuleList([Linear(width, width), Linear(width, width)])

    def forward(self, x: Tensor, sines: Tensor) -> Tensor:
        """x and sines (B,Q,W) -> sines (B,Q,W) with what x gives as factors."""
        y = sines * perceptron(self.layers, x)
        return y


class ConditionalEncoder(nn.Module):
    """An image's map through layers, and queries that read it near points."""

    def __init__(self, spec: ConditionalStackSpec):
        super().__init__()
        self.spec = spec
        self.embedding = signal_embedding(spec)
        self.layers = nn.ModuleList(
            QueryLayer(spec.block, spec.cells, False) for _ in range(spec.cells.num_layers)
        )
        self.queries = nn.Embedding(spec.queries, spec.hidden_size)
        self.query_position = PointSines(spec.hidden_size)
        self.query_scale = ScaledSines(spec.hidden_size)
        self.query_layers = nn.ModuleList(
            ConditionalLayer(spec.block, spec.objects, not layer) for layer in range(spec.objects.num_layers)
        )
        self.query_norm = Norm(spec.block.norm)

    def forward(
        self, pixel_values: Tensor, pixel_mask: Tensor | None = None, outputs: Given | None = None
    ) -> tuple[Tensor, Tensor]:
        """pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries (B,Q,W), boxes (B,Q,4)."""
        assert pixel_mask is not None
        grid = self.embedding(pixel_values)  # (B, R, C, W)
        real = resized_mask(pixel_mask, grid)  # (B, R, C)
        positions = sine_positions(self.spec.hidden_size, real).to(grid)
        x, seen = grid.flatten(1, 2), real.flatten(1)[:, None, None]  # (B, S, W), (B, 1, 1, S)
        for layer in self.layers:
            x = layer(x, positions, seen.expand(-1, 1, x.shape[1], -1))
        learned = self.queries.weight.expand(x.shape[0], -1, -1)  # (B, Q, W)
        sines, references = self.query_position(learned)
        y, mask = torch.zeros_like(learned), seen.expand(-1, 1, learned.shape[1], -1)
        for number, layer in enumerate(self.query_layers):
            turned = self.query_scale(y, sines) if number else sines
            y = layer(y, learned, turned, x, positions, mask)
        return self.query_norm(y), references
