"""Log-mel spectrograms of any length, normalised, as Parakeet reads them; B sounds, N samples, F frames."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from txexport.contracts.names import ATTENTION_MASK, INPUT_FEATURES
from txexport.errors import BundleError, InputError, shown
from txexport.runtime import memory
from txexport.runtime.preprocessing.audio import FASTEST, Source, as_sounds, read_sound
from txexport.runtime.preprocessing.extractors.log_mel import mel_filters
from txexport.runtime.preprocessing.preprocessor import check_kind, extractor_settings
from txexport.support.arguments import is_whole

# The defaults of ParakeetFeatureExtractor.
COUNTS = {"feature_size": 80, "sampling_rate": 16000, "hop_length": 160, "n_fft": 512, "win_length": 400}
ONLY = {"padding_side": "right", "padding_value": 0.0}  # the supported values
SLOWEST = 2000  # Hz: the mel scale is linear up to half of it
LARGEST = 2**13  # of each count but the rate
EMPHASIS = 0.97  # the default of preemphasis
EPSILON, FLOOR = 1e-5, 2.0**-24  # added to the standard deviation, and to a band before its logarithm
AT_ONCE = 2**21  # samples of frames that are computed at once, so that memory does not grow with a recording


class NormalisedLogMel:
    """The feature extractor of a Parakeet checkpoint; `rate` is its sampling rate in Hz.

    Raises BundleError for settings that are missing or damaged, UnsupportedError for another extractor.
    """

    kind = "ParakeetFeatureExtractor"
    port, rank = INPUT_FEATURES, 3
    masked = True

    def __init__(self, folder: Path):
        settings = extractor_settings(folder)
        check_kind(settings, self.kind, **ONLY)
        values = {
            name: default if settings.get(name) is None else settings[name]
            for name, default in COUNTS.items()
        }
        for name, value in values.items():
            most = FASTEST if name == "sampling_rate" else LARGEST
            if not is_whole(value, 1, most):
                raise BundleError(
                    f"feature extractor: {name} is {shown(value)}, expected a whole number from 1 to {most}"
                )
        self.bands, self.rate, self.hop, self.n_fft, window = (int(value) for value in values.values())
        self.least = 2 * self.hop
        self._check(window)
        emphasis = settings.get("preemphasis", EMPHASIS)
        if emphasis is not None and (
            isinstance(emphasis, bool) or not isinstance(emphasis, int | float) or not abs(emphasis) <= 1
        ):
            raise BundleError(
                f"feature extractor: preemphasis is {shown(emphasis)}, expected a number from -1 to 1"
            )
        self.emphasis = float(emphasis or 0)
        before = (self.n_fft - window) // 2
        self.window = np.pad(np.hanning(window), (before, self.n_fft - window - before))
        self.filters = mel_filters(self.bands, self.n_fft, self.rate, self.rate / 2)

    def _check(self, window: int) -> None:
        """Raise BundleError for counts that contradict each other."""
        if self.rate < SLOWEST or window > self.n_fft or self.hop > self.n_fft or self.bands > self.n_fft:
            raise BundleError(
                f"feature extractor: sampling_rate is {self.rate}, n_fft {self.n_fft}, win_length {window}, "
                f"hop_length {self.hop} and feature_size {self.bands}; expected {SLOWEST} or more, and the "
                "last three of at most n_fft"
            )

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """input_features (B,F,M) float32 of one sound or several, padded with zeros to the longest.

        Sounds are those of Extractor.features, of any length from two frames on. Raises InputError for an
        invalid sound, and for one that is too short.
        """
        return self.inputs(sounds, rate, truncate)[INPUT_FEATURES]

    def inputs(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> dict[str, np.ndarray]:
        """The features, and attention_mask (B,F) int64: 1 for a sound's frames."""
        samples = [read_sound(source, self.rate, rate, None) for source in as_sounds(sounds)]
        frames = 1 + max(one.size for one in samples) // self.hop
        memory.check(f"{len(samples):,} sounds", len(samples) * frames * self.bands * 4)
        features = np.zeros((len(samples), frames, self.bands), np.float32)
        mask = np.zeros((len(samples), frames), np.int64)
        for row, real, one in zip(features, mask, samples, strict=True):
            bands = self._row(one)
            row[: len(bands)], real[: len(bands)] = bands, 1
        return {INPUT_FEATURES: features, ATTENTION_MASK: mask}

    def _row(self, samples: np.ndarray) -> np.ndarray:
        """The features (F,M) float32 of samples (N,), each band with mean 0 and (unbiased) variance 1."""
        count = samples.size // self.hop
        if samples.size < self.least:
            raise InputError(
                f"a sound is {samples.size} samples long at {self.rate} Hz, expected at least {self.least}"
            )
        samples = samples.astype(np.float32)  # in which the original emphasises them
        emphasised = np.append(samples[:1], samples[1:] - np.float32(self.emphasis) * samples[:-1])
        padded = np.pad(emphasised.astype(np.float64), self.n_fft // 2)
        frames, size = sliding_window_view(padded, self.n_fft)[:: self.hop][:count], AT_ONCE // self.n_fft
        bands = np.concatenate([self._bands(frames[first : first + size]) for first in range(0, count, size)])
        deviations = bands - bands.mean(axis=0)
        result: Any = deviations / (bands.std(axis=0, ddof=1) + EPSILON)
        return result.astype(np.float32)

    def _bands(self, frames: np.ndarray) -> np.ndarray:
        """The logarithms (F,M) of mel bands of frames (F,n_fft)."""
        power = np.abs(np.fft.rfft(frames * self.window)) ** 2
        return np.log(power @ self.filters + FLOOR)


EXTRACTOR = NormalisedLogMel
