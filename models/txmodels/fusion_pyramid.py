"""Maps of several sizes that tell one another what they see (Zhao et al. 2024, 4.2)."""

import torch
from torch import Tensor, nn

from txexport.spec import AggregationPyramidSpec, FusionPyramidSpec
from txmodels.activation import activation
from txmodels.doubled import doubled
from txmodels.inputs.resnet import ConvolutionNorm


class ConvolutionPair(nn.Module):
    """Convolutions of 3 by 3 and of 1 by 1 places, added (Ding et al. 2021, 3.2)."""

    def __init__(self, spec: FusionPyramidSpec | AggregationPyramidSpec):
        super().__init__()
        self.activation = activation(spec.activation)
        self.wide = ConvolutionNorm(spec.inner, spec.inner, 3, 1, spec.eps)
        self.narrow = ConvolutionNorm(spec.inner, spec.inner, 1, 1, spec.eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,inner,R,C) -> y (B,inner,R,C)."""
        y: Tensor = self.activation(self.wide(x) + self.narrow(x))
        return y


class Fusion(nn.Module):
    """Two maps joined: one projection through pairs of convolutions, and one beside them."""

    def __init__(self, spec: FusionPyramidSpec):
        super().__init__()
        self.activation = activation(spec.activation)
        self.through = ConvolutionNorm(2 * spec.size, spec.inner, 1, 1, spec.eps)
        self.beside = ConvolutionNorm(2 * spec.size, spec.inner, 1, 1, spec.eps)
        self.pairs = nn.ModuleList(ConvolutionPair(spec) for _ in range(spec.blocks))
        self.project: nn.Module | None = None
        if spec.inner != spec.size:
            self.project = ConvolutionNorm(spec.inner, spec.size, 1, 1, spec.eps)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """first and second (B,size,R,C) -> y (B,size,R,C)."""
        x = torch.cat([first, second], dim=1)  # (B, 2*size, R, C)
        through, beside = self.activation(self.through(x)), self.activation(self.beside(x))
        for pair in self.pairs:
            through = pair(through)
        y: Tensor = through + beside
        return y if self.project is None else self.activation(self.project(y))


class FusionPyramid(nn.Module):
    """From the coarsest map to the finest, and back."""

    def __init__(self, spec: FusionPyramidSpec, levels: int):
        super().__init__()
        self.activation, sizes = activation(spec.activation), (spec.size, spec.size)
        self.laterals = nn.ModuleList(ConvolutionNorm(*sizes, 1, 1, spec.eps) for _ in range(levels - 1))
        self.downward = nn.ModuleList(Fusion(spec) for _ in range(levels - 1))
        self.strides = nn.ModuleList(ConvolutionNorm(*sizes, 3, 2, spec.eps) for _ in range(levels - 1))
        self.upward = nn.ModuleList(Fusion(spec) for _ in range(levels - 1))

    def forward(self, maps: dict[str, Tensor]) -> tuple[Tensor, ...]:
        """maps (B,size,R,C), the finest first, each with twice the rows of the next -> maps."""
        *finer, coarse = maps.values()
        fine: list[Tensor] = []
        for x, lateral, fusion in zip(reversed(finer), self.laterals, self.downward, strict=True):
            coarse = self.activation(lateral(coarse))
            fine.insert(0, coarse)
            coarse = fusion(doubled(coarse), x)
        results = [coarse]
        for x, stride, fusion in zip(fine, self.strides, self.upward, strict=True):
            results.append(fusion(self.activation(stride(results[-1])), x))
        return tuple(results)
