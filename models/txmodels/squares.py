"""Patches of images of any shape in squares of neighbours, without padding."""

import torch
from torch import Tensor

from txmodels.packed import patch_places


def squares(merged: int, x: Tensor, mask: Tensor, spatial_shapes: Tensor) -> Tensor:
    """x (I,P,W), mask (I,P), spatial_shapes (I,2) -> y (1,N,W), the N patches of all images in turn.

    Those of an image are in squares of `merged` by `merged` neighbours, row by row; its padding is left out.
    """
    real = x[mask.bool()]  # (N, W)
    grids = torch.cat([torch.ones_like(spatial_shapes[:, :1]), spatial_shapes], dim=1)  # (I, 3)
    coordinates, sides, first = patch_places(merged, grids)
    row, column = coordinates[:, 0]
    y = real[first + row * sides[1, 0] + column][None]
    return y
