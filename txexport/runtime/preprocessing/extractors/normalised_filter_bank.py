"""Sound to log-mel filter banks with mean and variance normalised, which Speech2Text reads.

B sounds, N samples, F frames, M mel bands.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txexport.contracts.names import ATTENTION_MASK, INPUT_FEATURES
from txexport.errors import BundleError, InputError, UnsupportedError, shown
from txexport.runtime import memory
from txexport.runtime.preprocessing.audio import FASTEST, Source, as_sounds, read_sound
from txexport.runtime.preprocessing.extractors.filter_bank import HOP, WINDOW, loud_bands, mel_filters
from txexport.runtime.preprocessing.preprocessor import check_kind, extractor_settings
from txexport.support.arguments import is_whole

# The defaults of Speech2TextFeatureExtractor, with the largest value of each.
COUNTS = {"sampling_rate": (16000, FASTEST), "num_mel_bins": (80, 2**10)}
SWITCHES = ("do_ceptral_normalize", "normalize_means", "normalize_vars")
ONLY = {"padding_side": "right", "dither": 0.0}  # the supported values; dither is random noise


class NormalisedFilterBank:
    """The feature extractor of a Speech2Text checkpoint; `rate` is its sampling rate in Hz.

    Raises BundleError for settings that are missing or damaged, UnsupportedError for another extractor.
    """

    kind = "Speech2TextFeatureExtractor"
    port, rank = INPUT_FEATURES, 3
    masked, hop, least = True, HOP, WINDOW

    def __init__(self, folder: Path):
        settings = extractor_settings(folder)
        check_kind(settings, self.kind, **ONLY)
        self.rate, self.bands = (_count(settings, name) for name in COUNTS)
        if self.rate != COUNTS["sampling_rate"][0]:
            raise UnsupportedError(
                f"feature extractor: sampling_rate {self.rate} is not supported; expected 16000, at which "
                "windows of the original have 400 samples"
            )
        switches = [True if settings.get(name) is None else settings[name] for name in SWITCHES]
        if not all(isinstance(value, bool) for value in switches):
            values = ", ".join(f"{name} {shown(settings.get(name))}" for name in SWITCHES)
            raise BundleError(f"feature extractor: {values}; expected true or false")
        normalised, means, variances = switches
        self.means, self.variances = normalised and means, normalised and variances
        padding = settings.get("padding_value", 0.0)
        if isinstance(padding, bool) or not isinstance(padding, int | float) or not abs(padding) < 1e6:
            raise BundleError(f"feature extractor: padding_value is {shown(padding)}, expected a number")
        self.padding = float(padding)
        self.filters = mel_filters(self.bands, self.rate)

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """input_features (B,F,M) float32 of one sound or several, padded to the longest.

        Sounds are those of Extractor.features, of any length from one window on. Raises InputError for an
        invalid sound, and for one that is too short.
        """
        return self.inputs(sounds, rate, truncate)[INPUT_FEATURES]

    def inputs(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> dict[str, np.ndarray]:
        """The features, and attention_mask (B,F) int64: 1 for a sound's frames."""
        rows = [self._row(read_sound(source, self.rate, rate, None)) for source in as_sounds(sounds)]
        lengths = np.array([len(row) for row in rows])
        memory.check(f"{len(rows):,} sounds", len(rows) * int(lengths.max()) * self.bands * 4)
        features = np.full((len(rows), lengths.max(), self.bands), self.padding, np.float32)
        for row, bands in zip(features, rows, strict=True):
            row[: len(bands)] = bands
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        return {INPUT_FEATURES: features, ATTENTION_MASK: mask}

    def _row(self, samples: np.ndarray) -> np.ndarray:
        """The features (F,M) of samples (N,), each band with mean 0 and variance 1 unless switched off."""
        if samples.size < self.least:
            raise InputError(
                f"a sound is {samples.size} samples long at {self.rate} Hz, expected at least {self.least}"
            )
        bands = loud_bands(samples, self.filters)
        if self.means:
            bands = bands - bands.mean(axis=0)
        if self.variances:
            deviations = bands.std(axis=0)
            if not deviations.all():
                raise InputError(
                    f"a sound of {samples.size:,} samples is silent, or too short, so that its features have "
                    "no variance to divide by"
                )
            bands = bands / deviations
        return bands


def _count(settings: dict[str, Any], name: str) -> int:
    """A setting that is a whole number."""
    default, most = COUNTS[name]
    value = settings.get(name)
    value = default if value is None else value
    if not is_whole(value, 1, most):
        raise BundleError(
            f"feature extractor: {name} is {shown(value)}, expected a whole number from 1 to {most}"
        )
    return int(value)


EXTRACTOR = NormalisedFilterBank
