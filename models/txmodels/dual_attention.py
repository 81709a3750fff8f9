"""Images as vectors: stages of attention within windows and between channels."""

import torch
from torch import Tensor, nn

from txexport.spec import DualStageSpec, NormSpec, PicturesSpec
from txmodels.feedforward import FeedForward
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.scaled_dot_product_attention import scaled_dot_product_attention
from txmodels.window_attention import whole_windows, window_grid, window_rows


class PlainWindowAttention(nn.Module):
    """Attention of every vector to its window, without positions (Ding et al. 2022, 3.2)."""

    def __init__(self, spec: DualStageSpec, window: int, bias: bool):
        super().__init__()
        self.window, self.num_heads, width = window, spec.num_heads, spec.hidden_size
        self.q, self.k, self.v = (Linear(width, width, bias) for _ in range(3))
        self.o = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R,C,W); zeros fill the grid to whole windows, and are attended to."""
        padded = whole_windows(self.window, x)  # (B, R', C', W)
        q, k, v = (
            window_rows(self.window, self.num_heads, part(padded)) for part in (self.q, self.k, self.v)
        )  # (B, M, N, T, H)
        heads = scaled_dot_product_attention(
            q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), None, scale=None
        )
        mixed = window_grid(self.window, heads.view_as(q), padded)  # (B, R', C', W)
        y: Tensor = self.o(mixed[:, : x.shape[1], : x.shape[2]])
        return y


class ChannelAttention(nn.Module):
    """Attention of every channel to those of its group, over all places (Ding et al. 2022, 3.3)."""

    def __init__(self, spec: DualStageSpec, bias: bool):
        super().__init__()
        self.groups, width = spec.num_groups, spec.hidden_size
        self.q, self.k, self.v = (Linear(width, width, bias) for _ in range(3))
        self.o = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R,C,W)."""
        mixed = channel_mix(self.groups, self.q(x), self.k(x), self.v(x))  # (B, R, C, W)
        y: Tensor = self.o(mixed)
        return y


def channel_mix(groups: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """q, k and v (B,R,C,W) -> mixed (B,R,C,W)."""
    queries, keys, values = (
        part.flatten(1, 2).unflatten(2, (groups, -1)).permute(0, 2, 3, 1) for part in (q, k, v)
    )  # (B, G, W/G, S)
    weights = (queries * queries.shape[3] ** -0.5 @ keys.mT).softmax(dim=-1)  # (B, G, W/G, W/G)
    mixed = (weights @ values).permute(0, 3, 1, 2).reshape(q.shape)
    return mixed


class DualLayer(nn.Module):
    """Attention, then feed-forward, each behind a convolution of its own (Ding et al. 2022, 3.4)."""

    def __init__(self, spec: DualStageSpec, attention: nn.Module, norm: NormSpec):
        super().__init__()
        width = spec.hidden_size
        self.position = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.attention_norm, self.attention = Norm(norm), attention
        self.second_position = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.feed_forward_norm, self.feed_forward = Norm(norm), FeedForward(spec.feed_forward)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R,C,W)."""
        x = x + _convolved(self.position, x)
        x = x + self.attention(self.attention_norm(x))
        x = x + _convolved(self.second_position, x)
        y = x + self.feed_forward(self.feed_forward_norm(x))
        return y


class DualMerging(nn.Module):
    """A convolution to a grid of fewer vectors, with a norm before or behind it (Ding et al. 2022, 3.4)."""

    def __init__(self, spec: DualStageSpec):
        super().__init__()
        self.norm_last = spec.norm_last
        self.project = nn.Conv2d(spec.inputs, spec.hidden_size, spec.kernel, spec.stride, spec.kernel // 2)
        self.norm = Norm(spec.norm)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,r,c,inputs) -> y (B,R,C,W), R and C divided by the stride and rounded up."""
        y = _convolved(self.project, x if self.norm_last else self.norm(x))
        return self.norm(y) if self.norm_last else y


class PictureVectors(nn.Module):
    """Positions, the mean before all vectors, and the projection to those of tokens (Xiao et al. 2024, 4)."""

    def __init__(self, spec: PicturesSpec):
        super().__init__()
        width = spec.hidden_size
        self.row = nn.Embedding(spec.positions, width // 2)
        self.column = nn.Embedding(spec.positions, width - width // 2)
        self.moment = nn.Embedding(spec.moments, width)
        self.project, self.norm = Linear(width, spec.norm.size, bias=False), Norm(spec.norm)

    def forward(self, x: Tensor) -> Tensor:
        """x (I,R,C,W) -> features (I,1+R*C,size)."""
        every = positioned(x, self.row.weight, self.column.weight, self.moment.weight)  # (I, 1+R*C, W)
        features: Tensor = self.norm(self.project(every))
        return features


def positioned(x: Tensor, row: Tensor, column: Tensor, moment: Tensor) -> Tensor:
    """x (I,R,C,W), row (P,W/2), column (P,W/2), moment (M,W) -> every (I,1+R*C,W)."""
    rows, columns = x.shape[1:3]
    wide = column[:columns].expand(rows, -1, -1)  # (R, C, W/2)
    high = row[:rows, None].expand(-1, columns, -1)
    flat = (x + torch.cat([wide, high], dim=-1)).flatten(1, 2) + moment[0]  # (I, S, W)
    every = torch.cat([flat.mean(dim=1, keepdim=True), flat], dim=1)
    return every


class Pictures(nn.Module):
    """Images as vectors in the places of tokens (Xiao et al. 2024, 4)."""

    def __init__(self, spec: PicturesSpec):
        super().__init__()
        self.spec = spec
        self.mergings = nn.ModuleList(DualMerging(stage) for stage in spec.stages)
        layers: list[nn.Module] = []
        for stage in spec.stages:
            norm = NormSpec(stage.hidden_size, spec.layer_norm)
            for _ in range(stage.num_layers):
                within = PlainWindowAttention(stage, spec.window, spec.bias)
                layers += [
                    DualLayer(stage, one, norm) for one in (within, ChannelAttention(stage, spec.bias))
                ]
        self.layers = nn.ModuleList(layers)
        self.vectors = PictureVectors(spec)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (I,channels,height,width) -> features (I,1+R*C,size): the mean, then every place."""
        x, layers = pixel_values.permute(0, 2, 3, 1), iter(self.layers)
        for stage, merging in zip(self.spec.stages, self.mergings, strict=True):
            x = merging(x)  # (I, R, C, W)
            for _ in range(2 * stage.num_layers):
                x = next(layers)(x)
        features: Tensor = self.vectors(x)
        return features


def _convolved(convolution: nn.Module, x: Tensor) -> Tensor:
    """x (B,r,c,inputs) -> y (B,R,C,W)."""
    y: Tensor = convolution(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    return y
