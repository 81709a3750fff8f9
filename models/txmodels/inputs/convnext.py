"""Images as maps of depthwise convolutions and networks, in stages (Liu et al. 2022, 2)."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from txexport.parts.inputs.convnext import layers
from txexport.spec import ConvNextSpec
from txexport.spec.convnext import KERNEL, MERGED, RESPONSE_EPS, WIDENING
from txmodels.activation import activation
from txmodels.linear import Linear
from txmodels.norm import Norm


class ResponseNorm(nn.Module):
    """Channels by their responses to a whole map, as shares of the mean response (Woo et al. 2023, 3.2)."""

    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 1, size))
        self.bias = nn.Parameter(torch.zeros(1, 1, size))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,F) -> y (B,R,C,F)."""
        responses = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)  # (B, 1, 1, F)
        shares = responses / (responses.mean(-1, keepdim=True) + RESPONSE_EPS)
        y = self.weight * (x * shares) + self.bias + x
        return y


class ConvnextLayer(nn.Module):
    """A depthwise convolution, a norm and a network, in a residual (Liu et al. 2022, 2.6)."""

    def __init__(self, spec: ConvNextSpec, size: int):
        super().__init__()
        inner = WIDENING * size
        self.convolution = nn.Conv2d(size, size, KERNEL, padding=KERNEL // 2, groups=size)
        self.norm = Norm(spec.norm(size))
        self.up, self.act, self.down = Linear(size, inner), activation(spec.activation), Linear(inner, size)
        self.responses = ResponseNorm(inner) if spec.responses else nn.Identity()
        self.scale = nn.Parameter(torch.ones(size)) if spec.scaled else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R,C,W)."""
        convolved = self.convolution(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        wide = self.responses(self.act(self.up(self.norm(convolved))))  # (B, R, C, F)
        mixed = self.down(wide)  # (B, R, C, W)
        y: Tensor = x + (mixed if self.scale is None else mixed * self.scale)
        return y


class ConvnextMerging(nn.Module):
    """A norm, and squares of places projected to one each (Liu et al. 2022, 2.6)."""

    def __init__(self, spec: ConvNextSpec, inputs: int, outputs: int):
        super().__init__()
        self.norm = Norm(spec.norm(inputs))
        self.project = nn.Conv2d(inputs, outputs, MERGED, MERGED)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R/2,C/2,outputs), rounded down."""
        y: Tensor = self.project(self.norm(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return y


class ConvnextEmbedding(nn.Module):
    """The maps of all stages of a ConvNeXt (Liu et al. 2022, 2)."""

    def __init__(self, spec: ConvNextSpec):
        super().__init__()
        self.depths = spec.depths
        self.project = nn.Conv2d(spec.channels, spec.sizes[0], spec.patch_size, spec.patch_size)
        self.norm = Norm(spec.norm(spec.sizes[0]))
        self.mergings = nn.ModuleList(ConvnextMerging(spec, *pair) for pair in pairwise(spec.sizes))
        normed = spec.sizes if spec.map_norms else ()
        self.map_norms = nn.ModuleList(Norm(spec.norm(size)) for size in normed)
        self.layers = nn.ModuleList(ConvnextLayer(spec, size) for size in layers(spec))

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """pixel_values (B,channels,height,width) -> maps (B,R,C,size), the finest first."""
        x, maps = self.norm(self.project(pixel_values).permute(0, 2, 3, 1)), []  # (B, R, C, W)
        following = iter(self.layers)
        for stage, depth in enumerate(self.depths):
            if stage:
                x = self.mergings[stage - 1](x)
            for _ in range(depth):
                x = next(following)(x)
            maps.append(self.map_norms[stage](x) if self.map_norms else x)
        return tuple(maps)


Embedding = ConvnextEmbedding
