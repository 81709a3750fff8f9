"""Normalised waveforms with a mask, as Omnilingual ASR reads them; B sounds, N samples."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from txexport.contracts.names import INPUT_VALUES
from txexport.runtime.preprocessing.audio import Source
from txexport.runtime.preprocessing.extractors.waveform import Waveform

EPSILON = 1e-5  # added to the variance


class OmniASRWaveform:
    """The feature extractor of an Omnilingual ASR checkpoint; the original's has an axis of one channel.

    Errors as Waveform. The mask is always made: the original ignores `return_attention_mask`.
    """

    kind = "OmniASRFeatureExtractor"
    port, rank = INPUT_VALUES, 2
    hop = least = 1
    masked = True

    def __init__(self, folder: Path):
        self._waveform = Waveform(folder, self.kind, EPSILON)
        self._waveform.masked = True
        self.rate = self._waveform.rate

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """input_values (B,N) float32 of one sound or several, padded on the right."""
        return self._waveform.features(sounds, rate, truncate)

    def inputs(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> dict[str, np.ndarray]:
        """input_values (B,N) float32 as `features`, and attention_mask (B,N) int64."""
        return self._waveform.inputs(sounds, rate, truncate)


EXTRACTOR = OmniASRWaveform
