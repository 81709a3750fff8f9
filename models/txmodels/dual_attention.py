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
        q, k, v = (
            part(x).flatten(1, 2).unflatten(2, (self.groups, -1)).permute(0, 2, 3, 1)
            for part in (self.q, self.k, self.v)
        )  # (B, G, W/G, S)
        weights = (q * q.shape[3] ** -0.5 @ k.mT).softmax(dim=-1)  # (B, G, W/G, W/G)
        mixed = (weights @ v).permute(0, 3, 1, 2).flatten(2).view_as(x)
        y: Tensor = self.o(mixed)
        return y


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


class DualStage(nn.Module):
    """A convolution to a grid, then pairs of layers."""

    def __init__(self, spec: DualStageSpec, pictures: PicturesSpec):
        super().__init__()
        self.norm_last, width, bias = spec.norm_last, spec.hidden_size, pictures.bias
        self.project = nn.Conv2d(spec.inputs, width, spec.kernel, spec.stride, spec.kernel // 2)
        self.norm, norm = Norm(spec.norm), NormSpec(width, pictures.layer_norm)
        layers: list[nn.Module] = []
        for _ in range(spec.num_layers):
            layers.append(DualLayer(spec, PlainWindowAttention(spec, pictures.window, bias), norm))
            layers.append(DualLayer(spec, ChannelAttention(spec, bias), norm))
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,r,c,inputs) -> y (B,R,C,W), R and C divided by the stride and rounded up."""
        x = _convolved(self.project, x if self.norm_last else self.norm(x))
        if self.norm_last:
            x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return x


class Pictures(nn.Module):
    """Images as vectors in the places of tokens (Xiao et al. 2024, 4)."""

    def __init__(self, spec: PicturesSpec):
        super().__init__()
        width = spec.hidden_size
        self.stages = nn.ModuleList(DualStage(stage, spec) for stage in spec.stages)
        self.row = nn.Embedding(spec.positions, width // 2)
        self.column = nn.Embedding(spec.positions, width - width // 2)
        self.moment = nn.Embedding(spec.moments, width)
        self.project, self.norm = Linear(width, spec.norm.size, bias=False), Norm(spec.norm)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (I,channels,height,width) -> features (I,1+R*C,size): the mean, then every place."""
        x = pixel_values.permute(0, 2, 3, 1)
        for stage in self.stages:
            x = stage(x)  # (I, R, C, W)
        rows, columns = x.shape[1:3]
        across = self.column(torch.arange(columns, device=x.device)).expand(rows, -1, -1)  # (R, C, W/2)
        down = self.row(torch.arange(rows, device=x.device))[:, None].expand(-1, columns, -1)
        x = x + torch.cat([across, down], dim=-1)
        flat = x.flatten(1, 2) + self.moment.weight[0]  # (I, S, W)
        every = torch.cat([flat.mean(dim=1, keepdim=True), flat], dim=1)
        features: Tensor = self.norm(self.project(every))
        return features


def _convolved(convolution: nn.Module, x: Tensor) -> Tensor:
    """x (B,r,c,inputs) -> y (B,R,C,W)."""
    y: Tensor = convolution(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    return y
