"""A feature pyramid that fuses maps from coarse to fine and back (Peng et al. 2024, A.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import AggregationPyramidSpec
from txmodels.activation import activation
from txmodels.convolution_norm import ConvolutionNorm, DepthwiseNorm
from txmodels.doubled import doubled
from txmodels.fusion_pyramid import ConvolutionPair


class PairStage(nn.Module):
    """Two projections of a map, one of them through pairs of convolutions, added."""

    def __init__(self, spec: AggregationPyramidSpec, inputs: int):
        super().__init__()
        self.activation = activation(spec.activation)
        self.through = ConvolutionNorm(inputs, spec.inner, 1, 1, spec.eps)
        self.beside = ConvolutionNorm(inputs, spec.inner, 1, 1, spec.eps)
        self.pairs = nn.ModuleList(ConvolutionPair(spec) for _ in range(spec.blocks))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,inputs,R,C) -> y (B,inner,R,C)."""
        through, beside = self.activation(self.through(x)), self.activation(self.beside(x))
        for pair in self.pairs:
            through = pair(through)
        y: Tensor = through + beside
        return y


class Aggregation(nn.Module):
    """Two maps fused: a projection of both, half of which goes through two stages (Wang et al. 2024, 4.2)."""

    def __init__(self, spec: AggregationPyramidSpec):
        super().__init__()
        self.activation, size, inner = activation(spec.activation), spec.size, spec.inner
        self.both = ConvolutionNorm(2 * size, 2 * size, 1, 1, spec.eps)
        self.stages = nn.ModuleList([PairStage(spec, size), PairStage(spec, inner)])
        self.wide = nn.ModuleList(ConvolutionNorm(inner, inner, 3, 1, spec.eps) for _ in range(2))
        self.project = ConvolutionNorm(2 * size + 2 * inner, size, 1, 1, spec.eps)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """first and second (B,size,R,C) -> y (B,size,R,C)."""
        both = self.activation(self.both(torch.cat([first, second], dim=1)))  # (B, 2*size, R, C)
        _, x = both.chunk(2, dim=1)
        parts = [both]
        for stage, wide in zip(self.stages, self.wide, strict=True):
            x = self.activation(wide(stage(x)))  # (B, inner, R, C)
            parts.append(x)
        y: Tensor = self.activation(self.project(torch.cat(parts, dim=1)))
        return y


class SeparableHalving(nn.Module):
    """A projection, and a depthwise convolution with a stride of 2."""

    def __init__(self, spec: AggregationPyramidSpec):
        super().__init__()
        self.point = ConvolutionNorm(spec.size, spec.size, 1, 1, spec.eps)
        self.each = DepthwiseNorm(spec.size, 3, 2, spec.eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,size,R,C) -> y (B,size,R/2,C/2)."""
        y: Tensor = self.each(self.point(x))
        return y


class AggregationPyramid(nn.Module):
    """From the coarsest map to the finest, and back."""

    def __init__(self, spec: AggregationPyramidSpec, levels: int):
        super().__init__()
        sizes = spec.size, spec.size
        self.laterals = nn.ModuleList(ConvolutionNorm(*sizes, 1, 1, spec.eps) for _ in range(levels - 1))
        self.downward = nn.ModuleList(Aggregation(spec) for _ in range(levels - 1))
        self.strides = nn.ModuleList(SeparableHalving(spec) for _ in range(levels - 1))
        self.upward = nn.ModuleList(Aggregation(spec) for _ in range(levels - 1))

    def forward(self, maps: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """maps (B,size,R,C), the finest first, each with twice the rows of the next -> maps."""
        *finer, coarse = maps.values()
        fine: list[Tensor] = []
        for x, lateral, join in zip(reversed(finer), self.laterals, self.downward, strict=True):
            coarse = lateral(coarse)
            fine.insert(0, coarse)
            coarse = join(doubled(coarse), x)
        results = [coarse]
        for x, stride, join in zip(fine, self.strides, self.upward, strict=True):
            results.append(join(stride(results[-1]), x))
        return tuple(results)
