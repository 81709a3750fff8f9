"""Normalised waveforms, as wav2vec 2.0 reads them; B sounds, N samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txexport.contracts.names import ATTENTION_MASK, INPUT_VALUES
from txexport.errors import BundleError, InputError, shown
from txexport.runtime import memory
from txexport.runtime.preprocessing.audio import FASTEST, Source, as_sounds, read_sound
from txexport.runtime.preprocessing.preprocessor import check_kind, extractor_settings
from txexport.support.arguments import is_whole

# The defaults of Wav2Vec2FeatureExtractor.
DEFAULTS: dict[str, Any] = {
    "sampling_rate": 16000,
    "do_normalize": True,
    "return_attention_mask": False,
    "padding_value": 0.0,
}
ONLY = {"feature_size": 1, "padding_side": "right"}  # the supported values
KIND, EPSILON = "Wav2Vec2FeatureExtractor", 1e-7  # added to the variance
LOUDEST = 1e6  # far above the amplitudes of sounds


class Waveform:
    """The feature extractor of a wav2vec 2.0 checkpoint at `rate` Hz.

    `kind` is its class in transformers, and `epsilon` is added to the variance.

    Raises BundleError for settings that are missing or damaged, UnsupportedError for another extractor.
    """

    kind = KIND
    port, rank = INPUT_VALUES, 2
    hop = least = 1

    def __init__(self, folder: Path, kind: str = KIND, epsilon: float = EPSILON):
        self.kind, self.epsilon = kind, epsilon
        settings = extractor_settings(folder)
        check_kind(settings, self.kind, **ONLY)
        values = DEFAULTS | {name: settings[name] for name in DEFAULTS if settings.get(name) is not None}
        self.rate, self.normalize, self.masked, padding = values.values()
        if not is_whole(self.rate, 1, FASTEST) or not isinstance(self.normalize, bool):
            raise BundleError(
                f"feature extractor: sampling_rate is {shown(self.rate)} and do_normalize "
                f"{shown(self.normalize)}, expected a whole number from 1 to {FASTEST}, and true or false"
            )
        if not isinstance(self.masked, bool):
            raise BundleError(
                f"feature extractor: return_attention_mask is {shown(self.masked)}, expected true or false"
            )
        if isinstance(padding, bool) or not isinstance(padding, int | float) or not abs(padding) <= LOUDEST:
            raise BundleError(f"feature extractor: padding_value is {shown(padding)}, expected a number")
        self.padding = float(padding)

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """input_values (B,N) float32 of one sound or several, padded on the right if there is a mask.

        Sounds are those of Extractor.features, of any length. Raises InputError for an invalid sound, and
        without a mask for sounds of several lengths: padding would change the output.
        """
        return self.inputs(sounds, rate, truncate)[self.port]

    def inputs(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> dict[str, np.ndarray]:
        """input_values (B,N) float32 as `features`, and where they are masked attention_mask (B,N) int64."""
        rows = [self._row(read_sound(source, self.rate, rate, None)) for source in as_sounds(sounds)]
        lengths = np.array([row.size for row in rows])
        if lengths.min() < lengths.max() and not self.masked:
            raise InputError(
                f"sounds of {lengths.min():,} to {lengths.max():,} samples are in one batch, and the model "
                "has no mask for padding; read them one at a time"
            )
        memory.check(f"{len(rows):,} sounds", len(rows) * int(lengths.max()) * 4)
        values = np.full((len(rows), lengths.max()), self.padding, np.float32)
        for row, samples in zip(values, rows, strict=True):
            row[: samples.size] = samples
        if not self.masked:
            return {self.port: values}
        mask = np.arange(lengths.max()) < lengths[:, None]
        return {self.port: values, ATTENTION_MASK: mask.astype(np.int64)}

    def _row(self, samples: np.ndarray) -> np.ndarray:
        """The samples with mean 0 and variance 1, computed in float32 as the original."""
        samples = samples.astype(np.float32)
        if self.normalize:
            samples = (samples - samples.mean()) / np.sqrt(samples.var() + self.epsilon)
        return samples


EXTRACTOR = Waveform
