"""Squares of patches of images of any shape: both halves on the same numbers, as LFM2-VL joins them."""

from functools import partial

import pytest
import torch
import txgraphs.squares
import txmodels.squares
from helpers.twins import check, random
from transformers.models.lfm2_vl.modeling_lfm2_vl import Lfm2VlMultiModalProjector

W = 5
SHAPES = [[(2, 2)], [(2, 6), (6, 2), (4, 4)], [(6, 12), (2, 2), (2, 8)], [(12, 2)] * 3]


@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_squares_are_those_of_the_library(shapes, padding):
    """Padding is left out, wherever an image ends."""
    sizes = torch.tensor(shapes)
    count = int(sizes.prod(dim=1).max()) + padding
    mask = (torch.arange(count) < sizes.prod(dim=1, keepdim=True)).long()
    x = random(len(shapes), count, W)
    [y] = check(partial(txmodels.squares.squares, 2), txgraphs.squares.squares(2), x, mask, sizes)
    projector = Lfm2VlMultiModalProjector.__new__(Lfm2VlMultiModalProjector)
    torch.nn.Module.__init__(projector)
    projector.factor = 2
    expected = [
        projector.pixel_unshuffle(row[: high * wide].view(1, high, wide, W)).reshape(-1, 2, 2, W)
        for row, (high, wide) in zip(x, shapes, strict=True)
    ]
    assert torch.equal(torch.from_numpy(y)[0], torch.cat(expected).reshape(-1, W))
