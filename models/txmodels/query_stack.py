"""Stacks of queries over an image."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from txexport.spec import FeedForwardSpec, QueryBlockSpec, QueryLayersSpec, QueryStackSpec
from txmodels.feedforward import FeedForward
from txmodels.inputs import signal_embedding
from txmodels.inputs.resnet import ResnetEmbedding
from txmodels.norm import Norm
from txmodels.separate_attention import SeparateAttention
from txmodels.stack import Given

TEMPERATURE, EPS = 10000, 1e-6  # of sines; what a divisor of 0 becomes


class QueryLayer(nn.Module):
    """Attention to vectors, to a map if there is one, and a network (Carion et al. 2020, A.3)."""

    def __init__(self, spec: QueryBlockSpec, layers: QueryLayersSpec, crossed: bool):
        super().__init__()
        self.pre_norm, self.crossed_first, width = spec.pre_norm, spec.crossed_first, spec.hidden_size
        self.attention = SeparateAttention(width, layers.num_heads, width)
        self.attention_norm = Norm(spec.norm)
        self.cross_attention = SeparateAttention(width, layers.num_heads, width) if crossed else None
        self.cross_attention_norm = Norm(spec.norm) if crossed else None
        self.feed_forward = FeedForward(FeedForwardSpec(width, layers.intermediate_size, spec.activation))
        self.feed_forward_norm = Norm(spec.norm)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        image: Tensor | None = None,
        image_positions: Tensor | None = None,
    ) -> Tensor:
        """x and positions (B,S,W), a map and its positions (B,T,W), mask of what it attends to -> y (B,S,W).

        The mask is (B,1,S,S), or with a map (B,1,S,T).
        """
        if self.crossed_first:
            x = self._of_image(x, positions, mask, image, image_positions)
        inner = self._before(self.attention_norm, x)
        of_itself = mask if image is None else None
        x = self._after(
            self.attention_norm, x + self.attention(inner + positions, inner + positions, inner, of_itself)
        )
        if not self.crossed_first:
            x = self._of_image(x, positions, mask, image, image_positions)
        y = x + self.feed_forward(self._before(self.feed_forward_norm, x))
        return self._after(self.feed_forward_norm, y)

    def _of_image(
        self,
        x: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        image: Tensor | None,
        image_positions: Tensor | None,
    ) -> Tensor:
        """Attention to a map, if there is one."""
        if image is None or self.cross_attention is None:
            return x
        inner = self._before(self.cross_attention_norm, x)
        placed = image if image_positions is None else image + image_positions
        read = self.cross_attention(inner + positions, placed, image, mask)
        return self._after(self.cross_attention_norm, x + read)

    def _before(self, norm: nn.Module | None, x: Tensor) -> Tensor:
        """The input of a sublayer."""
        normed: Tensor = norm(x) if self.pre_norm and norm is not None else x
        return normed

    def _after(self, norm: nn.Module | None, x: Tensor) -> Tensor:
        """The sum of a sublayer's input and output, normalised."""
        normed: Tensor = norm(x) if not self.pre_norm and norm is not None else x
        return normed


class QueryEncoder(nn.Module):
    """An image's map through layers, and queries that read it."""

    def __init__(self, spec: QueryStackSpec):
        super().__init__()
        self.spec = spec
        self.embedding = signal_embedding(spec)
        self.layers = nn.ModuleList(
            QueryLayer(spec.block, spec.cells, False) for _ in range(spec.cells.num_layers)
        )
        self.layers_norm = Norm(spec.norm) if spec.pre_norm else nn.Identity()
        self.queries = nn.Embedding(spec.queries, spec.hidden_size)
        self.query_layers = nn.ModuleList(
            QueryLayer(spec.block, spec.objects, True) for _ in range(spec.objects.num_layers)
        )
        self.query_norm = Norm(spec.norm)

    def forward(
        self, pixel_values: Tensor, pixel_mask: Tensor | None = None, outputs: Given | None = None
    ) -> tuple[Tensor, None]:
        """pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries (B,Q,W), and None.

        If a head reads maps, `outputs` is filled with those of the network's stages but the last, then with
        `grid` (B,R,C,W), the last one, `image` (B,S,W) after its layers, and `real` (B,R,C).
        """
        assert pixel_mask is not None
        states = outputs or Given()
        if states.maps is None:
            grid = self.embedding(pixel_values)  # (B, R, C, W)
        else:
            assert isinstance(self.embedding, ResnetEmbedding)
            grid, *finer = self.embedding.maps(pixel_values)
            for one in finer:
                states.stage(one)
        real = resized_mask(pixel_mask, grid)  # (B, R, C)
        positions = sine_positions(self.spec.hidden_size, real).to(grid)
        x, seen = grid.flatten(1, 2), real.flatten(1)[:, None, None]  # (B, S, W), (B, 1, 1, S)
        for layer in self.layers:
            x = layer(x, positions, seen.expand(-1, 1, x.shape[1], -1))
        image = self.layers_norm(x)
        learned = self.queries.weight.expand(x.shape[0], -1, -1)  # (B, Q, W)
        y = torch.zeros_like(learned)
        for layer in self.query_layers:
            y = layer(y, learned, seen.expand(-1, 1, y.shape[1], -1), image, positions)
        if states.maps is not None:
            states.maps |= {"grid": grid, "image": image, "real": real}
        queries: Tensor = self.query_norm(y)
        return queries, None


def resized_mask(pixel_mask: Tensor, grid: Tensor) -> Tensor:
    """pixel_mask (B,h,w), grid (B,R,C,W) -> which places are of the image (B,R,C), by the nearest pixel."""
    real = interpolate(pixel_mask[None].to(grid), grid.shape[1:3])[0] != 0
    return real


def sine_positions(size: int, real: Tensor, temperature: float = TEMPERATURE, start: float = 1.0) -> Tensor:
    """Which places are of the image (B,R,C) -> sines and cosines of rows and columns (B,S,size).

    Rows and columns are counted from `start` within the image, as shares of 2 pi (Carion et al. 2020, A.4).
    """
    count = real.to(torch.get_default_dtype())
    rows, columns = count.cumsum(1), count.cumsum(2)
    less = count * (1 - start)  # of places of the image, not of padding
    down = (rows - less) / (rows[:, -1:] + EPS) * (2 * math.pi)
    across = (columns - less) / (columns[:, :, -1:] + EPS) * (2 * math.pi)
    steps = torch.arange(0, size // 2, 2, device=real.device).to(count)
    periods = temperature ** (2 * steps / size)
    parts = []
    for angles in (down, across):
        turns = angles[..., None] / periods  # (B, R, C, size / 4)
        parts.append(torch.stack([turns.sin(), turns.cos()], dim=-1).flatten(3))
    positions = torch.cat(parts, dim=3).flatten(1, 2)
    return positions
