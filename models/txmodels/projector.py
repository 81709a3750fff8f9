"""Maps of several layers as levels of a pyramid (Chen et al. 2024, 3.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import Activation, BatchNormSpec, NormSpec, ProjectorSpec
from txexport.spec.windowed_maps import NARROWED
from txmodels.activation import activation
from txmodels.batch_norm import BatchNorm
from txmodels.norm import Norm


class NormedConvolution(nn.Module):
    """A convolution without a bias, a batch norm or a layer norm of channels, and an activation."""

    def __init__(
        self, norm: NormSpec | BatchNormSpec, inputs: int, kernel: int, stride: int, act: Activation
    ):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, norm.size, kernel, stride, kernel // 2, bias=False)
        self.of_channels = isinstance(norm, NormSpec)
        self.norm: nn.Module = Norm(norm) if isinstance(norm, NormSpec) else BatchNorm(norm)
        self.activation = activation(act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,inputs,R,C) -> y (B,size,R/stride,C/stride), rounded up."""
        x = self.convolution(x)
        x = channels_normed(self.norm, x) if self.of_channels else self.norm(x)
        y: Tensor = self.activation(x)
        return y


def channels_normed(norm: nn.Module, x: Tensor) -> Tensor:
    """x (B,W,R,C) -> y (B,W,R,C), normalised over channels."""
    y: Tensor = norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
    return y


class MapResize(nn.Module):
    """A map with twice or half as many rows and columns, or as many."""

    def __init__(self, spec: ProjectorSpec, size: int, scale: float):
        super().__init__()
        relu, norm = Activation.RELU, spec.norm_of
        parts: dict[str, nn.Module] = {}
        if scale == 0.5:
            parts["coarser"] = NormedConvolution(norm(size), size, 3, 2, relu)
        if scale == 2.0 and size > NARROWED:
            parts["narrow"] = NormedConvolution(norm(size // 2), size, 1, 1, relu)
        if scale == 2.0:
            inner = size // 2 if size > NARROWED else size
            parts["finer"] = nn.ConvTranspose2d(inner, spec.resized(size, scale), 2, 2)
        for name, part in parts.items():
            self.add_module(name, part)
        self.parts = list(parts.values())

    def forward(self, x: Tensor) -> Tensor:
        """x (B,size,R,C) -> y (B,resized,scale * R,scale * C), rounded up."""
        for part in self.parts:
            x = part(x)
        return x


class ProjectorLevel(nn.Module):
    """A level of the pyramid, made of a map of each layer that is read."""

    def __init__(self, spec: ProjectorSpec, maps: int, size: int, scale: float):
        super().__init__()
        inner, act, norm = spec.inner, spec.activation, spec.norm_of
        self.inner = inner
        self.resize = nn.ModuleList(MapResize(spec, size, scale) for _ in range(maps))
        total = maps * spec.resized(size, scale)
        self.first = NormedConvolution(norm(2 * inner), total, 1, 1, act)
        pairs: list[nn.Module] = []
        for _ in range(spec.blocks):
            pairs.append(nn.Sequential(*(NormedConvolution(norm(inner), inner, 3, 1, act) for _ in range(2))))
        self.pairs = nn.ModuleList(pairs)
        self.last = NormedConvolution(norm(spec.size), (2 + spec.blocks) * inner, 1, 1, act)
        self.norm = Norm(spec.norm)

    def forward(self, maps: dict[str, Tensor]) -> Tensor:
        """maps (B,channels,R,C) -> level (B,size,scale * R,scale * C)."""
        resized = [part(x) for part, x in zip(self.resize, maps.values(), strict=True)]
        joined = self.first(torch.cat(resized, dim=1))  # (B, 2*inner, R, C)
        parts = [*joined.split(self.inner, dim=1)]
        for pair in self.pairs:
            parts.append(pair(parts[-1]))
        y = channels_normed(self.norm, self.last(torch.cat(parts, dim=1)))
        return y
