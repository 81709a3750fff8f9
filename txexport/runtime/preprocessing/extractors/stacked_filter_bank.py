"""Sound to log-mel filter banks, several frames in one, which w2v-BERT 2.0 reads.

B sounds, N samples, F frames, M mel bands; S vectors of T frames each.
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

# The defaults of SeamlessM4TFeatureExtractor, with the largest value of each.
COUNTS = {"sampling_rate": (16000, FASTEST), "num_mel_bins": (80, 2**10), "stride": (2, 2**10)}
ONLY = {"padding_side": "right"}  # the supported values
EPSILON = 1e-7  # added to the variance
MULTIPLE = 2  # of frames in a batch


class StackedFilterBank:
    """The feature extractor of a w2v-BERT checkpoint; `rate` is its sampling rate in Hz.

    Raises BundleError for settings that are missing or damaged, UnsupportedError for another extractor.
    """

    kind = "SeamlessM4TFeatureExtractor"
    port, rank = INPUT_FEATURES, 3
    masked = True

    def __init__(self, folder: Path):
        settings = extractor_settings(folder)
        check_kind(settings, self.kind, **ONLY)
        self.rate, self.bands, self.stride = (_count(settings, name) for name in COUNTS)
        if self.stride < 2 or self.rate < 1000:
            raise UnsupportedError(
                f"feature extractor: stride is {self.stride} and sampling_rate {self.rate}, expected "
                "2 or more and 1000 or more"
            )
        self.hop, self.least = HOP * self.stride, WINDOW + HOP * (self.stride - 1)
        padding = settings.get("padding_value", 0.0)
        if isinstance(padding, bool) or not isinstance(padding, int | float) or not abs(padding) < 1e6:
            raise BundleError(f"feature extractor: padding_value is {shown(padding)}, expected a number")
        self.padding = float(padding)
        self.filters = mel_filters(self.bands, self.rate)

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """input_features (B,S,T*M) float32 of one sound or several, padded to the longest.

        Sounds are those of Extractor.features, of any length from two frames on. Raises InputError for an
        invalid sound, and for one that is too short.
        """
        return self.inputs(sounds, rate, truncate)[INPUT_FEATURES]

    def inputs(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> dict[str, np.ndarray]:
        """The features, and attention_mask (B,S) int64: 1 where a vector's second frame is of the sound."""
        rows = [self._row(read_sound(source, self.rate, rate, None)) for source in as_sounds(sounds)]
        lengths = np.array([len(row) for row in rows])
        frames = -(-lengths.max() // MULTIPLE) * MULTIPLE
        memory.check(f"{len(rows):,} sounds", len(rows) * int(frames) * self.bands * 4)
        padded = np.full((len(rows), frames, self.bands), self.padding, np.float32)
        for row, bands in zip(padded, rows, strict=True):
            row[: len(bands)] = bands
        count = frames // self.stride
        features = padded[:, : count * self.stride].reshape(len(rows), count, self.stride * self.bands)
        second = np.arange(count) * self.stride + 1
        mask = (second < lengths[:, None]).astype(np.int64)
        return {INPUT_FEATURES: features, ATTENTION_MASK: mask}

    def _row(self, samples: np.ndarray) -> np.ndarray:
        """The features (F,M) of samples (N,), each band with mean 0 and (unbiased) variance 1."""
        if samples.size < self.least:
            raise InputError(
                f"a sound is {samples.size} samples long at {self.rate} Hz, expected at least {self.least}"
            )
        bands = np.ascontiguousarray(loud_bands(samples, self.filters).T)  # (M, F), as the original sums them
        deviations = bands - bands.mean(axis=1, keepdims=True)
        return (deviations / np.sqrt(bands.var(axis=1, ddof=1, keepdims=True) + np.float32(EPSILON))).T


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


EXTRACTOR = StackedFilterBank
