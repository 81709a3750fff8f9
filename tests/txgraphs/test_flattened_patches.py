"""Patches of an image in a row: the PyTorch half and the ONNX half."""

from functools import partial

import pytest
import torch
import txgraphs.inputs.flattened_patches
import txmodels.inputs.flattened_patches
from helpers.twins import check, random

from txexport.parts.inputs import OF_SPEC
from txexport.spec import FlattenedPatchesSpec


@pytest.mark.parametrize("positions", [2, 9])
def test_patches_are_placed_by_their_first_numbers(positions):
    spec = FlattenedPatchesSpec(12, 10, positions)
    module = txmodels.inputs.flattened_patches.FlattenedPatchesEmbedding(spec)
    shapes = {name: tuple(value.shape) for name, value in module.named_parameters()}
    assert shapes == OF_SPEC[FlattenedPatchesSpec].parameters(spec)
    locations = torch.randint(0, positions, (3, 7, 2), generator=torch.Generator().manual_seed(0))
    patches = torch.cat([locations.float(), random(3, 7, 10)], dim=2)
    function = partial(txgraphs.inputs.flattened_patches.flattened_patches_embedding, spec)
    check(module, function, patches, torch.tensor([[1] * 7, [1] * 4 + [0] * 3, [1] + [0] * 6]))
