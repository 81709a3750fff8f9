"""Gated convolutions and masks of sounds: twins over every switch, and the originals."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.inputs.gated_frames
import txgraphs.source_mask
import txmodels.inputs.gated_frames
import txmodels.source_mask
from helpers.sparse import W
from helpers.twins import check, random

from txexport.parts.inputs import OF_SPEC
from txexport.spec import GatedFramesSpec

FRAMES = GatedFramesSpec(W, 10, 14, (5, 3), 30, pad_token_id=1, scale=3.5)


def shapes_of(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


@pytest.mark.parametrize("lengths", [[1, 1], [9, 40], [23, 8], [64, 57]], ids=str)
@pytest.mark.parametrize(
    "spec",
    [FRAMES, replace(FRAMES, kernels=(3,), max_length=64), replace(FRAMES, kernels=(1, 5, 3), scale=1.0)],
    ids=str,
)
def test_gated_frames(spec, lengths):
    module = txmodels.inputs.gated_frames.GatedFramesEmbedding(spec)
    assert shapes_of(module) == OF_SPEC[GatedFramesSpec].parameters(spec)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    function = partial(txgraphs.inputs.gated_frames.gated_frames_embedding, spec)
    x, real = check(module, function, random(2, max(lengths), spec.num_mel_bins), mask)
    assert real.sum(1).tolist() == [spec.vectors(length) for length in lengths]
    assert x.shape == (2, spec.vectors(max(lengths)), W)


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize(
    ("convolutions", "counts"),
    [((), [7, 3, 0]), (((1, 2), (1, 2)), [2, 1, 0]), (((3, 2), (2, 1)), [2, 0, 0])],
    ids=str,
)
def test_source_mask(convolutions, counts, axis):
    """By hand: three rows of 7, 3 and 0 real samples; the vectors are along the second or third axis."""
    mask = (torch.arange(7) < torch.tensor([7, 3, 0])[:, None]).long()
    states = random(*((3, 8) if axis == 1 else (3, 2, 8)), 5)

    def twin(attention_mask, x):
        return txmodels.source_mask.source_mask(convolutions, attention_mask, x.shape[axis])

    function = partial(txgraphs.source_mask.source_mask, convolutions, axis)
    [vectors] = check(twin, function, mask, states)
    assert vectors.sum(1).tolist() == counts
