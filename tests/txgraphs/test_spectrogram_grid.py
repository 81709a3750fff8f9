"""Spectrograms folded into squares: twins, the original's image, and the interpolation of PyTorch."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.inputs.spectrogram_grid
from helpers.twins import check, random
from transformers import ClapAudioConfig
from transformers.models.clap.modeling_clap import ClapAudioEncoder
from txmodels.inputs.spectrogram_grid import SpectrogramGridEmbedding, cubic

from txexport.parts.inputs import OF_SPEC
from txexport.spec import NormSpec, SpectrogramGridSpec

B, W, BANDS, SIDE, PATCH = 3, 12, 8, 32, 2
FRAMES = [1, 2, 37, 127, 128]


@pytest.mark.parametrize("normed", [False, True], ids=["plain", "norm"])
@pytest.mark.parametrize("frames", FRAMES)
def test_twins(frames, normed):
    spec = SpectrogramGridSpec(W, BANDS, SIDE, PATCH, NormSpec(W, 1e-3) if normed else None)
    module = SpectrogramGridEmbedding(spec)
    shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    assert shapes == OF_SPEC[type(spec)].parameters(spec)
    function = partial(txgraphs.inputs.spectrogram_grid.spectrogram_grid_embedding, spec)
    (x,) = check(module, function, random(B, 1, frames, BANDS))
    assert x.shape == (B, *spec.grid, W)


@pytest.mark.parametrize("frames", FRAMES)
@torch.no_grad()
def test_square_is_the_original_s(frames):
    """In float64, in which PyTorch too finds the places of frames exactly."""
    config = ClapAudioConfig(
        spec_size=SIDE, num_mel_bins=BANDS, patch_size=PATCH, patch_stride=[PATCH, PATCH], depths=[1]
    )
    original = ClapAudioEncoder(config).eval().double()
    x = random(B, 1, frames, BANDS).double()
    spec = SpectrogramGridSpec(W, BANDS, SIDE, PATCH, None)
    square = cubic(spec.max_length, x[:, 0].mT).unflatten(2, (spec.folds, SIDE)).transpose(1, 2)
    assert np.abs((original.reshape_mel2img(x)[:, 0] - square.flatten(1, 2)).numpy()).max() < 1e-12


def test_frames_of_the_whole_length_are_not_changed():
    x = random(B, BANDS, 128)
    assert torch.equal(cubic(128, x), x)
