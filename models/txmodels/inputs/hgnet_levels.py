"""Images as the maps of several stages of an HGNetV2 (Peng et al. 2024, A.1)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d, pad

from txexport.parts.inputs.hgnet_levels import stages
from txexport.spec import HGNetLevelsSpec, HGNetStageSpec
from txmodels.convolution_norm import ConvolutionNorm, DepthwiseNorm


class Affine(nn.Module):
    """A learned factor and a learned addend of all numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(1)), nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """x (...) -> y (...)."""
        y = self.weight * x + self.bias
        return y


class ReluConvolution(nn.Module):
    """A convolution with a batch norm, ReLU, and if `affine` a factor and an addend."""

    def __init__(self, affine: bool, inputs: int, outputs: int, kernel: int, stride: int, eps: float):
        super().__init__()
        self.part = ConvolutionNorm(inputs, outputs, kernel, stride, eps)
        self.affine: nn.Module = Affine() if affine else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """x (B,inputs,R,C) -> y (B,outputs,R/stride,C/stride)."""
        y: Tensor = self.affine(torch.relu(self.part(x)))
        return y


class LightConvolution(nn.Module):
    """A 1 by 1 convolution, and a depthwise convolution followed by ReLU."""

    def __init__(self, affine: bool, inputs: int, outputs: int, kernel: int, eps: float):
        super().__init__()
        self.point = ConvolutionNorm(inputs, outputs, 1, 1, eps)
        self.part = DepthwiseNorm(outputs, kernel, 1, eps)
        self.affine: nn.Module = Affine() if affine else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """x (B,inputs,R,C) -> y (B,outputs,R,C)."""
        y: Tensor = self.affine(torch.relu(self.part(self.point(x))))
        return y


class AggregationBlock(nn.Module):
    """Convolutions one after another, joined with what they read, and projected twice."""

    def __init__(self, spec: HGNetStageSpec, affine: bool, inputs: int, residual: bool, eps: float):
        super().__init__()
        self.residual, total = residual, inputs
        layers: list[nn.Module] = []
        for layer in range(spec.layers):
            before = spec.inner if layer else inputs
            if spec.light:
                layers.append(LightConvolution(affine, before, spec.inner, spec.kernel, eps))
            else:
                layers.append(ReluConvolution(affine, before, spec.inner, spec.kernel, 1, eps))
            total += spec.inner
        self.layers = nn.ModuleList(layers)
        self.squeeze = ReluConvolution(affine, total, spec.size // 2, 1, 1, eps)
        self.excite = ReluConvolution(affine, spec.size // 2, spec.size, 1, 1, eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,inputs,R,C) -> y (B,size,R,C)."""
        maps = [x]
        for layer in self.layers:
            maps.append(layer(maps[-1]))
        y: Tensor = self.excite(self.squeeze(torch.cat(maps, dim=1)))
        return y + x if self.residual else y


class HgnetStem(nn.Module):
    """The stem, which divides an image's sides by 4: two 2 by 2 convolutions beside a 2 by 2 max pooling."""

    def __init__(self, spec: HGNetLevelsSpec):
        super().__init__()
        inner, affine, eps = spec.stem, spec.affine, spec.eps
        self.first = ReluConvolution(affine, spec.channels, inner, 3, 2, eps)
        self.narrow = ReluConvolution(affine, inner, inner // 2, 2, 1, eps)
        self.wide = ReluConvolution(affine, inner // 2, inner, 2, 1, eps)
        self.joined = ReluConvolution(affine, 2 * inner, inner, 3, 2, eps)
        self.last = ReluConvolution(affine, inner, spec.stem_size, 1, 1, eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B,channels,height,width) -> x (B,stem_size,height/4,width/4)."""
        x = pad(self.first(pixel_values), (0, 1, 0, 1))
        beside = self.wide(pad(self.narrow(x), (0, 1, 0, 1)))
        y: Tensor = self.last(self.joined(torch.cat([max_pool2d(x, 2, 1), beside], dim=1)))
        return y


class HgnetLevelsEmbedding(nn.Module):
    """The maps of the last stages of an HGNetV2, each projected (Peng et al. 2024, A.1)."""

    def __init__(self, spec: HGNetLevelsSpec):
        super().__init__()
        self.stem, self.ends, affine, eps = HgnetStem(spec), [], spec.affine, spec.eps
        blocks, halves = nn.ModuleList(), nn.ModuleList()
        for inputs, stage in stages(spec):
            halves.append(DepthwiseNorm(inputs, 3, 2, eps) if stage.halved else nn.Identity())
            self.ends.append(stage.blocks)
            for block in range(stage.blocks):
                before = stage.size if block else inputs
                blocks.append(AggregationBlock(stage, affine, before, block > 0, eps))
        self.halves, self.blocks = halves, blocks
        self.project = nn.ModuleList(
            ConvolutionNorm(stage.size, spec.hidden_size, 1, 1, eps) for stage in spec.stages[-spec.levels :]
        )

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """pixel_values (B,channels,height,width) -> levels (B,W,R,C), the finest first."""
        x, maps, first = self.stem(pixel_values), [], 0
        for half, count in zip(self.halves, self.ends, strict=True):
            x = half(x)
            for number in range(first, first + count):
                x = self.blocks[number](x)
            maps.append(x)
            first += count
        read = maps[len(maps) - len(self.project) :]
        return tuple(part(x) for part, x in zip(self.project, read, strict=True))


Embedding = HgnetLevelsEmbedding
