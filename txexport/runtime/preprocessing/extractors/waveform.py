"""Normalised waveforms, as wav2vec 2.0 reads them; B sounds, N samples."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txexport.contracts.names import INPUT_VALUES
from txexport.errors import BundleError, InputError, UnsupportedError, shown
from txexport.runtime.preprocessing.audio import FASTEST, Source, as_sounds, read_sound
from txexport.runtime.preprocessing.preprocessor import check_kind, extractor_settings
from txexport.support.arguments import is_whole

# The defaults of Wav2Vec2FeatureExtractor.
DEFAULTS: dict[str, Any] = {"sampling_rate": 16000, "do_normalize": True}
ONLY = {"feature_size": 1, "padding_side": "right"}  # the supported values
EPSILON = 1e-7  # added to the variance


class Waveform:
    """The feature extractor of a wav2vec 2.0 checkpoint at `rate` Hz.

    Raises BundleError for settings that are missing or damaged, UnsupportedError for another extractor.
    """

    kind = "Wav2Vec2FeatureExtractor"
    port, rank = INPUT_VALUES, 2

    def __init__(self, folder: Path):
        settings = extractor_settings(folder)
        check_kind(settings, self.kind)
        for name, value in ONLY.items():
            if settings.get(name) not in (None, value):
                raise UnsupportedError(f"feature extractor: {name} {settings[name]!r} is not supported")
        values = DEFAULTS | {name: settings[name] for name in DEFAULTS if settings.get(name) is not None}
        self.rate, self.normalize = values.values()
        if not is_whole(self.rate, 1, FASTEST) or not isinstance(self.normalize, bool):
            raise BundleError(
                f"feature extractor: sampling_rate is {shown(self.rate)} and do_normalize "
                f"{shown(self.normalize)}, expected a whole number from 1 to {FASTEST}, and true or false"
            )

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """input_values (B,N) float32 of one sound or several of one length.

        Sounds are those of Extractor.features, of any length. Raises InputError for an invalid sound, and for
        sounds of several lengths: the model has no mask, so padding would change its output.
        """
        rows = [self._row(read_sound(source, self.rate, rate, None)) for source in as_sounds(sounds)]
        lengths = sorted({row.size for row in rows})
        if len(lengths) > 1:
            raise InputError(
                f"sounds of {lengths[0]:,} to {lengths[-1]:,} samples are in one batch, and the model has no "
                "mask for padding; read them one at a time"
            )
        return np.stack(rows)

    def _row(self, samples: np.ndarray) -> np.ndarray:
        """The samples with mean 0 and variance 1, computed in float32 as the original."""
        samples = samples.astype(np.float32)
        if self.normalize:
            samples = (samples - samples.mean()) / np.sqrt(samples.var() + EPSILON)
        return samples


EXTRACTOR = Waveform
