"""Patches of pixels of any size: their rows and columns, and squares of them, of both halves."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.patch_merger
import txgraphs.position
import txmodels.patch_merger
import txmodels.position
from helpers.twins import check, random, seeded
from transformers import Mistral3Config
from transformers.models.mistral3.modeling_mistral3 import Mistral3PatchMerger

from txexport.errors import SpecError
from txexport.parts.architectures._connector import patch_merger
from txexport.spec import NormKind, NormSpec, PatchMergerSpec

W, SIDE = 6, 3
SPEC = PatchMergerSpec(W, 2, NormSpec(W, 1e-5, NormKind.RMS))
SIZES = [(2, 2), (4, 6), (6, 2), (2, 10)]  # rows and columns


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_rows_and_columns(size):
    pixels = random(2, 3, *(SIDE * edge for edge in size))
    module = partial(txmodels.position.patch_coordinates, SIDE)
    [coordinates] = check(module, txgraphs.position.patch_coordinates(SIDE), pixels)
    expected = np.indices(size).reshape(2, 1, -1)
    assert np.array_equal(coordinates, np.broadcast_to(expected, coordinates.shape))
    assert coordinates.shape[1] == 2


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_squares_are_those_of_the_library(size):
    module = seeded(txmodels.patch_merger.PatchMerger(SPEC, SIDE))
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == patch_merger(SPEC)
    pixels, x = random(2, 3, *(SIDE * edge for edge in size)), random(2, size[0] * size[1], W)
    function = partial(txgraphs.patch_merger.patch_merger, SPEC, SIDE)
    [y] = check(module, function, x, pixels)
    vision = {"model_type": "pixtral", "hidden_size": W, "patch_size": SIDE, "num_attention_heads": 1}
    original = Mistral3PatchMerger(Mistral3Config(vision_config=vision, spatial_merge_size=2))
    with torch.no_grad():
        original.merging_layer.weight.copy_(module.project.weight)
        sizes = [tuple(pixels.shape[2:])] * 2
        expected = original(module.norm(x).flatten(0, 1), sizes)
    assert (torch.from_numpy(y).flatten(0, 1) - expected).abs().max() < 1e-5


def test_a_norm_of_another_width_is_refused():
    with pytest.raises(SpecError, match="the norm is 7 wide, expected 6"):
        PatchMergerSpec(W, 2, NormSpec(7, 1e-5))
