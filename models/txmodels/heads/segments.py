"""Scores of labels for the places of an image (Xie et al. 2021, 3.2)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec, SegmentsSpec
from txmodels.batch_norm import BatchNorm
from txmodels.linear import Linear


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


def bilinear(x: Tensor, size: Tensor) -> Tensor:
    """x (B,F,r,c), size (2) -> y (B,F,*size), bilinear between the centres of pixels."""
    y = F.interpolate(x, size.tolist(), mode="bilinear")
    return y


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> SegmentsHead:
    """The head of a model's spec."""
    assert spec.segments is not None
    return SegmentsHead(spec.segments, spec.labels)
