"""Biases of distances between patches: both halves on the same numbers, in the original's order."""

from functools import partial

import pytest
import torch
import transformers
import txgraphs.patch_bias_attention
from helpers.twins import check, random
from transformers.models.beit.modeling_beit import BeitRelativePositionBias
from txmodels.patch_bias_attention import PatchBiasAttention, patch_bias

from txexport.spec import PatchBiasAttentionSpec
from txexport.spec.attention_parameters import attention

B, W = 2, 16


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 3), (4, 2)])
def test_patch_bias_attention(rows, columns):
    spec = PatchBiasAttentionSpec(W, 2, 5, rows, columns)
    module = PatchBiasAttention(spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == attention(spec)
    function = partial(txgraphs.patch_bias_attention.patch_bias_attention, spec)
    check(module, function, random(B, 1 + rows * columns, W))


@pytest.mark.parametrize("side", [2, 5])
def test_biases_are_in_the_original_s_order(side):
    config = transformers.BeitConfig(image_size=4 * side, patch_size=4, num_attention_heads=3)
    original = BeitRelativePositionBias(config)
    table = random(*original.relative_position_bias_table.shape)
    original.relative_position_bias_table = torch.nn.Parameter(table)
    with torch.inference_mode():  # in which the original keeps its indices for other tests
        assert torch.equal(patch_bias((side, side), table), original((side, side)))
