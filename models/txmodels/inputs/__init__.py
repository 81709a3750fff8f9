"""Inputs of stacks, one file each: the modules that make vectors of them."""

from collections.abc import Callable

from torch import nn

from txexport.spec import LogMelSpec, PatchSpec, SpectrogramSpec
from txmodels.inputs.log_mel import SoundEmbedding
from txmodels.inputs.patches import PatchEmbedding
from txmodels.inputs.spectrogram import SpectrogramEmbedding

SIGNALS: dict[type, Callable[..., nn.Module]] = {
    PatchSpec: PatchEmbedding,
    LogMelSpec: SoundEmbedding,
    SpectrogramSpec: SpectrogramEmbedding,
}
