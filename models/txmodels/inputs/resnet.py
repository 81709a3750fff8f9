"""Images as maps of convolutions in residual stages (He et al. 2016, 4.1)."""

from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, max_pool2d

from txexport.spec import ResNetLevelsSpec, ResNetSpec
from txexport.spec.resnet import REDUCTION
from txmodels.convolution_norm import ConvolutionNorm


class ResidualLayer(nn.Module):
    """Two convolutions, or three as a bottleneck, in a residual (He et al. 2016, 3.3 and 4.1).

    A `pooled` residual is halved by means of 2 by 2 places (He et al. 2019, 4.1).
    """

    def __init__(
        self,
        spec: ResNetSpec | ResNetLevelsSpec,
        inputs: int,
        outputs: int,
        stride: int,
        projected: bool,
        pooled: bool = False,
    ):
        super().__init__()
        self.pooled, inner, eps = pooled, outputs // REDUCTION, spec.eps
        parts = (
            [(inputs, inner, 1, 1), (inner, inner, 3, stride), (inner, outputs, 1, 1)]
            if spec.bottleneck
            else [(inputs, outputs, 3, stride), (outputs, outputs, 3, 1)]
        )
        self.parts = nn.ModuleList(ConvolutionNorm(*part, eps) for part in parts)
        self.shortcut: nn.Module = nn.Identity()
        if projected:
            self.shortcut = ConvolutionNorm(inputs, outputs, 1, 1 if pooled else stride, eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,inputs,height,width) -> y (B,outputs,height/stride,width/stride), rounded up."""
        y = x
        for number, part in enumerate(self.parts):
            y = part(torch.relu(y) if number else y)
        x = avg_pool2d(x, 2, 2, ceil_mode=True) if self.pooled else x
        return torch.relu(y + self.shortcut(x))


def residual_layers(spec: ResNetSpec) -> list[ResidualLayer]:
    """The layers of all stages."""
    layers, inputs = [], spec.stem
    for stage, (depth, size) in enumerate(zip(spec.depths, spec.sizes, strict=True)):
        for layer in range(depth):
            stride = 2 if stage and not layer else 1
            layers.append(ResidualLayer(spec, inputs, size, stride, inputs != size or stride != 1))
            inputs = size
    return layers


class ResnetEmbedding(nn.Module):
    """The last map of a residual network, projected (He et al. 2016, 4.1)."""

    def __init__(self, spec: ResNetSpec):
        super().__init__()
        self.stem = ConvolutionNorm(spec.channels, spec.stem, 7, 2, spec.eps)
        self.layers = nn.ModuleList(residual_layers(spec))
        self.ends = list(accumulate(spec.depths))[:-1]  # of stages but the last, in layers
        self.project = nn.Conv2d(spec.sizes[-1], spec.hidden_size, 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B,channels,height,width) -> x (B,R,C,W)."""
        x = max_pool2d(torch.relu(self.stem(pixel_values)), 3, 2, 1)
        for layer in self.layers:
            x = layer(x)
        y: Tensor = self.project(x).permute(0, 2, 3, 1)
        return y

    def maps(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """pixel_values (B,channels,height,width) -> x (B,R,C,W), and maps (B,r,c,size) of finer stages."""
        x, finer = max_pool2d(torch.relu(self.stem(pixel_values)), 3, 2, 1), []
        for number, layer in enumerate(self.layers, 1):
            x = layer(x)
            if number in self.ends:
                finer.append(x.permute(0, 2, 3, 1))
        y: Tensor = self.project(x).permute(0, 2, 3, 1)
        return y, *finer


Embedding = ResnetEmbedding
