"""Log-mel spectrograms of repeated sounds, as CLAP reads them; B sounds, N samples, F frames, M mel bands."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from txexport.bundle import read_json
from txexport.contracts.names import INPUT_FEATURES
from txexport.errors import BundleError, UnsupportedError, shown
from txexport.runtime import memory
from txexport.runtime.preprocessing.audio import FASTEST, Source, as_sounds, read_sound
from txexport.runtime.preprocessing.extractors.log_mel import FRAMES, mel_filters
from txexport.runtime.preprocessing.preprocessor import check_kind, extractor_settings
from txexport.support.arguments import is_whole

# The defaults of ClapFeatureExtractor.
COUNTS = {
    "feature_size": 64,
    "sampling_rate": 48_000,
    "hop_length": 480,
    "max_length_s": 10,
    "fft_window_size": 1024,
}
SIDE = 256  # the default spec_size of ClapAudioConfig
LOWEST, HIGHEST = 0.0, 14_000.0  # Hz
CROPS, PADDINGS = "rand_trunc", ("repeatpad", "repeat", "pad")
FLOOR = 1e-10  # of a band, before its logarithm


class RepeatedLogMel:
    """The feature extractor of a CLAP checkpoint without fusion; `rate` is its sampling rate in Hz.

    A sound that is shorter than `samples` is repeated as often as it fits, and padded with silence. Raises
    BundleError for settings that are missing or damaged, UnsupportedError for another extractor.
    """

    kind = "ClapFeatureExtractor"
    port, rank = INPUT_FEATURES, 4
    masked, least = False, 1

    def __init__(self, folder: Path):
        settings = extractor_settings(folder)
        check_kind(settings, self.kind)
        counts = {name: _or(settings.get(name), default) for name, default in COUNTS.items()}
        for name, value in counts.items():
            if not is_whole(value, 1):
                raise BundleError(
                    f"feature extractor: {name} is {shown(value)}, expected a whole number from 1"
                )
        bands, rate, hop, seconds, size = counts.values()
        edges = _or(settings.get("frequency_min"), LOWEST), _or(settings.get("frequency_max"), HIGHEST)
        numbers = all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in edges)
        if not numbers or not 0 <= edges[0] < edges[1] <= FASTEST or rate > FASTEST:
            raise BundleError(
                f"feature extractor: frequency_min is {shown(edges[0])}, frequency_max {shown(edges[1])} and "
                f"sampling_rate {rate}, expected rising numbers of Hz, at most {FASTEST}"
            )
        longest = seconds * rate
        if (
            size // 2 >= longest
            or hop > longest
            or max(longest // hop * max(size, bands), size * bands) > FRAMES
        ):
            message = ", ".join(f"{name} {shown(value)}" for name, value in counts.items())
            raise BundleError(f"feature extractor: {message}; expected a shorter window, and fewer numbers")
        crop, self.padding = (
            _or(settings.get("truncation"), "fusion"),
            _or(settings.get("padding"), PADDINGS[0]),
        )
        if crop != CROPS or self.padding not in PADDINGS:
            raise UnsupportedError(
                f"feature extractor: truncation {shown(crop)} and padding {shown(self.padding)} are not "
                f"supported; expected {CROPS}, and {' or '.join(PADDINGS)}"
            )
        self.rate, self.hop, self.samples = rate, hop, longest
        self.window = np.hanning(size + 1)[:-1]
        self.filters = mel_filters(bands, size, rate, *(float(edge) for edge in reversed(edges)))
        _check_frames(folder, longest // hop + 1)

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """input_features (B,1,F,M) float32 of one sound or several, in decibels.

        Sounds are those of Extractor.features. Raises InputError for an invalid sound and, unless `truncate`
        cuts it, for one that is too long: of such a sound the original reads a part at random.
        """
        sounds = as_sounds(sounds)
        frames, bands = self.samples // self.hop + 1, self.filters.shape[1]
        memory.check(f"{len(sounds):,} sounds", len(sounds) * frames * bands * 4)
        longest = None if truncate else self.samples
        cure = "cut it" if truncate is None else "shorten it, or cut it with truncate=True (--truncate)"
        read = (read_sound(source, self.rate, rate, longest, cure) for source in sounds)
        return np.stack([self._row(samples[: self.samples])[None] for samples in read])

    def inputs(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> dict[str, np.ndarray]:
        """The features of sounds by the name of the graph's input."""
        return {self.port: self.features(sounds, rate, truncate)}

    def _row(self, samples: np.ndarray) -> np.ndarray:
        """The features (F,M) of samples (N,), repeated and padded to the full length."""
        times = self.samples // samples.size
        if self.padding != "pad":
            samples = np.tile(samples, times + (self.padding == "repeat"))[: self.samples]
        size = self.window.size
        padded = np.pad(samples.astype(np.float64), (0, self.samples - samples.size))
        frames = sliding_window_view(np.pad(padded, size // 2, mode="reflect"), size)[:: self.hop]
        spectrum = np.fft.rfft(frames * self.window).astype(np.complex64)
        power = np.abs(spectrum, dtype=np.float64) ** 2  # (F, fft_window_size // 2 + 1)
        return (10 * np.log10(np.maximum(power @ self.filters, FLOOR))).astype(np.float32)


def _check_frames(folder: Path, frames: int) -> None:
    """Raise BundleError for more frames than the model's square image holds beside each other."""
    config = read_json(folder / "config.json", missing={}).get("audio_config") or {}
    side, bands = config.get("spec_size", SIDE), config.get("num_mel_bins", COUNTS["feature_size"])
    if is_whole(side, 1) and is_whole(bands, 1) and frames > side * (side // bands):
        raise BundleError(
            f"feature extractor: max_length_s and hop_length give {frames} frames, expected at most "
            f"{side * (side // bands)}, for spec_size {side} and num_mel_bins {bands} of config.json"
        )


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


EXTRACTOR = RepeatedLogMel
