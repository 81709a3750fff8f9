"""Patches of images of any shape: both halves on the same numbers, positions as PyTorch interpolates them."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.inputs.naflex
import txmodels.inputs.naflex
from helpers.twins import check, random
from torch.nn.functional import interpolate

from txexport.parts.inputs import OF_SPEC
from txexport.spec import NaflexSpec

W, SIDE = 6, 5
SPEC = NaflexSpec(W, 2, SIDE)
SHAPES = [[(5, 5), (1, 25), (25, 1)], [(1, 1)], [(2, 9), (7, 3), (3, 7), (4, 4)], [(1, 2), (13, 2)]]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_naflex_embedding(shapes):
    """A batch is ragged; padding gets the position of the first patch."""
    count = max(high * wide for high, wide in shapes) + 2
    module = txmodels.inputs.naflex.NaflexEmbedding(SPEC)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[NaflexSpec].parameters(SPEC)
    sizes = torch.tensor(shapes)
    mask = (torch.arange(count) < sizes.prod(dim=1, keepdim=True)).long()
    function = partial(txgraphs.inputs.naflex.naflex_embedding, SPEC)
    x, same = check(module, function, random(len(shapes), count, SPEC.numbers), mask, sizes)
    assert x.shape == (len(shapes), count, W)
    assert np.array_equal(same, mask)


@pytest.mark.parametrize("shape", [(5, 5), (1, 1), (1, 25), (25, 1), (2, 9), (16, 16), (31, 3), (4, 6)])
@pytest.mark.parametrize("side", [1, 2, 5, 16])
def test_positions_are_interpolated_with_antialias(side, shape):
    """For any shape; the original before transformers 5 interpolated every image by itself, as here."""
    table = random(side, side, W)
    count = shape[0] * shape[1]
    shares = txmodels.inputs.naflex.position_shares(side, torch.tensor([shape]), count + 3)
    position = shares @ table.flatten(0, 1)  # (1, P, W)
    channels, turned = table.permute(2, 0, 1)[None], shape[1] == 1
    if turned:  # PyTorch reads a single column wrongly, but not a single row
        channels, shape = channels.mT, shape[::-1]
    expected = interpolate(channels, shape, mode="bilinear", align_corners=False, antialias=True)
    assert (position[0, :count] - expected[0].flatten(1).mT).abs().max() < 1e-5
    assert (shares[0, count:] - shares[0, 0]).abs().max() == 0  # a padded place is the first one
