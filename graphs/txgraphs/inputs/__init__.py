"""Inputs of stacks, one file each: the components that make vectors of them."""

from collections.abc import Callable

import onnx_ir as ir

from txexport.spec import LogMelSpec, PatchSpec, SpectrogramSpec
from txgraphs.inputs.log_mel import sound_embedding
from txgraphs.inputs.patches import patch_embedding
from txgraphs.inputs.spectrogram import spectrogram_embedding

SIGNALS: dict[type, Callable[..., ir.Value]] = {
    PatchSpec: patch_embedding,
    LogMelSpec: sound_embedding,
    SpectrogramSpec: spectrogram_embedding,
}
