"""Images as the maps of all stages of a residual network (He et al. 2016, 4.1)."""

from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn.functional import max_pool2d

from txexport.spec import ResNetMapsSpec
from txmodels.inputs.resnet import ConvolutionNorm, residual_layers


class ResnetMapsEmbedding(nn.Module):
    """The maps of all stages of a residual network (He et al. 2016, 4.1)."""

    def __init__(self, spec: ResNetMapsSpec):
        super().__init__()
        self.stem = ConvolutionNorm(spec.channels, spec.stem, 7, 2, spec.eps)
        self.layers = nn.ModuleList(residual_layers(spec.network))
        self.ends = list(accumulate(spec.depths))  # of stages, in layers

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """pixel_values (B,channels,height,width) -> maps (B,R,C,size), the finest first."""
        x, maps = max_pool2d(torch.relu(self.stem(pixel_values)), 3, 2, 1), []
        for number, layer in enumerate(self.layers, 1):
            x = layer(x)
            if number in self.ends:
                maps.append(x.permute(0, 2, 3, 1))
        return tuple(maps)


Embedding = ResnetMapsEmbedding
