"""Images as the maps of several stages of a residual network (He et al. 2019, 4.1)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from txexport.parts.inputs.resnet_levels import layers
from txexport.spec import ResNetLevelsSpec
from txmodels.inputs.resnet import ConvolutionNorm, ResidualLayer


class ResnetLevelsEmbedding(nn.Module):
    """The maps of the last stages of a residual network, each projected (He et al. 2019, 4.1)."""

    def __init__(self, spec: ResNetLevelsSpec):
        super().__init__()
        half, eps = spec.stem // 2, spec.eps
        sizes = (spec.channels, half, 2), (half, half, 1), (half, spec.stem, 1)
        self.stem = nn.ModuleList(
            ConvolutionNorm(inputs, outputs, 3, stride, eps) for inputs, outputs, stride in sizes
        )
        self.layers = nn.ModuleList(ResidualLayer(spec, *layer.sizes) for layer in layers(spec))
        self.read = [layer.level for layer in layers(spec)]
        self.project = nn.ModuleList(
            ConvolutionNorm(size, spec.hidden_size, 1, 1, eps) for size in spec.sizes[-spec.levels :]
        )

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """pixel_values (B,channels,height,width) -> levels (B,W,R,C), the finest first."""
        x, levels = pixel_values, []
        for part in self.stem:
            x = torch.relu(part(x))
        x = max_pool2d(x, 3, 2, 1)
        for layer, level in zip(self.layers, self.read, strict=True):
            x = layer(x)
            if level is not None:
                levels.append(self.project[level](x))
        return tuple(levels)


Embedding = ResnetLevelsEmbedding
