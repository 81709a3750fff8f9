"""Scores of labels for the places of an image, from maps of several resolutions."""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import FusedSegmentsSpec, HeadSpec, MapPyramidSpec, PyramidSpec, SegmentsSpec
from txmodels.batch_norm import BatchNorm
from txmodels.bilinear import bilinear
from txmodels.convolution_norm import ConvolutionNorm
from txmodels.feature_fusion import FeatureMaps, corner_aligned
from txmodels.heads._grid import patch_counts
from txmodels.linear import Linear
from txmodels.pyramid import MapPyramid, Pyramid


class SegmentsHead(nn.Module):
    """Scores of labels from the maps of all stages (Xie et al. 2021, 3.2)."""

    def __init__(self, spec: SegmentsSpec, labels: int):
        super().__init__()
        width, count = spec.hidden_size, len(spec.sizes)
        self.projects = nn.ModuleList(Linear(size, width) for size in spec.sizes)
        self.fuses = nn.ModuleList(nn.Conv2d(width, width, 1, bias=False) for _ in range(count))
        self.norm = BatchNorm(spec.norm)
        self.scores = nn.Conv2d(width, labels, 1)

    def forward(self, maps: dict[str, Tensor]) -> Tensor:
        """maps (B,R,C,W), the finest first -> logits (B,labels,R,C) of its places.

        Each map's part of the joint projection precedes the interpolation, with which it commutes.
        """
        size, fused = torch.tensor(maps["0"].shape[1:3], device="cpu"), None
        for x, project, fuse in zip(maps.values(), self.projects, self.fuses, strict=True):
            part = fuse(project(x).permute(0, 3, 1, 2))  # (B, F, r, c)
            if x is not maps["0"]:
                part = bilinear(part, size)
            fused = part if fused is None else fused + part
        logits: Tensor = self.scores(torch.relu(self.norm(fused)))
        return logits

    def outputs_of_maps(self, x: Tensor, maps: dict[str, Tensor]) -> dict[str, Tensor]:
        """The graph's output: logits (B,labels,R,C)."""
        return {names.LOGITS: self(maps)}


class FusedSegmentsHead(nn.Module):
    """Scores of labels from the fused map of several layers (Ranftl et al. 2021, 3.1)."""

    def __init__(self, spec: FusedSegmentsSpec, hidden_size: int, labels: int):
        super().__init__()
        self.spec, width = spec, spec.norm.size
        self.neck = FeatureMaps(spec.fusion, hidden_size)
        self.convolve = ConvolutionNorm(width, width, 3, 1, spec.norm.eps)
        self.scores = nn.Conv2d(width, labels, 1)

    def forward(self, states: dict[str, Tensor], pixel_values: Tensor) -> Tensor:
        """states (B,S,W), pixel_values (B,channels,height,width) -> logits (B,labels,height,width).

        The logits are those of the pixels of whole patches where patches have 16 a side.
        """
        grid = patch_counts(self.spec.fusion.patch_size, pixel_values)
        x = self.neck(states, grid)
        normed = torch.relu(self.convolve(x))
        double = 2 * torch.tensor(normed.shape[2:], device="cpu")
        logits = corner_aligned(self.scores(normed), double)
        return logits


class PyramidHead(nn.Module):
    """Scores of labels from a pyramid of maps (Xiao et al. 2018, 3.1)."""

    def __init__(self, spec: PyramidSpec, labels: int):
        super().__init__()
        self.spec = spec
        self.pyramid = Pyramid(spec)
        self.scores = nn.Conv2d(spec.norm.size, labels, 1)

    def forward(self, states: dict[str, Tensor], pixel_values: Tensor) -> Tensor:
        """states (B,S,W), pixel_values (B,channels,height,width) -> logits (B,labels,4R,4C)."""
        joint = self.pyramid(states, patch_counts(self.spec.patch_size, pixel_values))
        logits: Tensor = self.scores(joint)
        return logits


class MapPyramidHead(nn.Module):
    """Scores of the labels of every pixel, from a pyramid of maps (Xiao et al. 2018, 3.1)."""

    def __init__(self, spec: MapPyramidSpec, labels: int):
        super().__init__()
        self.pyramid = MapPyramid(spec)
        self.scores = nn.Conv2d(spec.norm.size, labels, 1)

    def forward(self, maps: dict[str, Tensor]) -> Tensor:
        """maps (B,R,C,size), and last the pixels (B,channels,H,W) -> logits (B,labels,H,W)."""
        *stages, pixels = maps.values()
        joint = self.pyramid(*(x.permute(0, 3, 1, 2) for x in stages))
        logits = bilinear(self.scores(joint), torch.tensor(pixels.shape[2:], device="cpu"))
        return logits

    def outputs_of_maps(self, x: Tensor, maps: dict[str, Tensor]) -> dict[str, Tensor]:
        """The graph's output: logits (B,labels,H,W)."""
        return {names.LOGITS: self(maps)}


def head(
    spec: HeadSpec, hidden_size: int, vocab_size: int
) -> SegmentsHead | FusedSegmentsHead | PyramidHead | MapPyramidHead:
    """The head of a model's spec."""
    match spec.segments:
        case MapPyramidSpec() as pyramid_of_maps:
            return MapPyramidHead(pyramid_of_maps, spec.labels)
        case FusedSegmentsSpec() as fused:
            return FusedSegmentsHead(fused, hidden_size, spec.labels)
        case PyramidSpec() as pyramid:
            return PyramidHead(pyramid, spec.labels)
        case segments:
            assert segments is not None
            return SegmentsHead(segments, spec.labels)
