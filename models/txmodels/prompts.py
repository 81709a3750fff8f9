"""Points, corners of boxes, and the places of an image as vectors."""

import math

import torch
from torch import Tensor, nn

from txexport.contracts.names import ABSENT, CORNERS, NO_POINT


class Frequencies(nn.Module):
    """Sines and cosines of random frequencies (Tancik et al. 2020, 3.2)."""

    def __init__(self, count: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, count))

    def forward(self, coordinates: Tensor) -> Tensor:
        """coordinates (...,2), x and y from 0 to 1 -> vectors (...,2*count)."""
        angles = 2 * math.pi * ((2 * coordinates - 1) @ self.weight)
        vectors = torch.cat([angles.sin(), angles.cos()], dim=-1)
        return vectors


class Prompts(nn.Module):
    """The vectors of points by their labels (Kirillov et al. 2023, 3 and A).

    1 is in the object, 0 outside of it, 2 and 3 the upper left and lower right corner of a box. A point
    labelled -1 is none, which replaces a box. One labelled -10 is padding, and its vector 0.
    """

    def __init__(self, size: int):
        super().__init__()
        self.labels = nn.ModuleList(nn.Embedding(1, size) for _ in range(CORNERS[1] + 1))
        self.none = nn.Embedding(1, size)

    def forward(self, points: Tensor, input_labels: Tensor) -> Tensor:
        """points (B,P,N,W), encoded coordinates, input_labels (B,P,N) -> (B,P,N,W)."""
        labels = input_labels[..., None]
        y = torch.where(labels == NO_POINT, self.none.weight, points)
        y = torch.where(labels == ABSENT, torch.zeros_like(y), y)
        for label, embedding in enumerate(self.labels):
            weight = embedding.weight
            assert isinstance(weight, Tensor)
            y = y + (labels == label).to(y) * weight
        return y
