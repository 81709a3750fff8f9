"""Sound to log-mel filter banks as Kaldi makes them, which AST takes; N samples, F frames, M mel bands."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from txexport.contracts.names import INPUT_VALUES
from txexport.errors import BundleError, InputError, shown
from txexport.runtime import memory
from txexport.runtime.preprocessing.audio import FASTEST, Source, as_sounds, read_sound
from txexport.runtime.preprocessing.preprocessor import check_kind, extractor_settings
from txexport.support.arguments import is_whole

# The defaults of ASTFeatureExtractor, and its constants.
COUNTS = {"sampling_rate": 16000, "num_mel_bins": 128, "max_length": 1024}
MEAN, STD = -4.2677393, 4.5689974
WINDOW, HOP, FFT = 400, 160, 512  # samples, at any rate
PREEMPHASIS, LOWEST = 0.97, 20.0  # the second in Hz
FRAMES = 2**26  # numbers of all frames of a sound
LOUDEST = 2**15  # the amplitude of 16-bit samples
POVEY = np.hanning(WINDOW) ** 0.85
AT_ONCE = 2**12  # frames that are computed at once, so that memory does not grow with a recording
FLOOR = 1.192092955078125e-07  # of a band, before its logarithm


class FilterBank:
    """The feature extractor of an AST checkpoint; `rate` is its sampling rate in Hz.

    Raises BundleError for settings that are missing or damaged, UnsupportedError for another extractor.
    """

    kind = "ASTFeatureExtractor"
    port, rank = INPUT_VALUES, 3
    hop, least = HOP, WINDOW
    masked = False

    def __init__(self, folder: Path):
        settings = extractor_settings(folder)
        check_kind(settings, self.kind)
        counts = {name: _or(settings.get(name), default) for name, default in COUNTS.items()}
        for name, value in counts.items():
            if not is_whole(value, 1):
                raise BundleError(
                    f"feature extractor: {name} is {shown(value)}, expected a whole number from 1"
                )
        if (
            not 1000 <= counts["sampling_rate"] <= FASTEST
            or counts["num_mel_bins"] * counts["max_length"] > FRAMES
        ):
            message = ", ".join(f"{name} {shown(value)}" for name, value in counts.items())
            raise BundleError(f"feature extractor: {message}; expected a rate from 1000, and fewer numbers")
        self.rate, self.bands, self.length = (int(value) for value in counts.values())
        self.normalize = _or(settings.get("do_normalize"), True)
        mean, std = _or(settings.get("mean"), MEAN), _or(settings.get("std"), STD)
        numbers = all(isinstance(one, int | float) and abs(one) < 1e6 for one in (mean, std))
        if not isinstance(self.normalize, bool) or not numbers or not std > 1e-6:
            raise BundleError(
                f"feature extractor: do_normalize is {shown(self.normalize)}, mean {shown(mean)} and std "
                f"{shown(std)}, expected true or false, a number, and one above 0"
            )
        self.mean, self.scale = float(mean), 2 * float(std)
        self.window = np.hanning(WINDOW)
        self.filters = mel_filters(self.bands, self.rate)

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """input_values (B,F,M) float32 of one sound or several, each padded to the model's full length.

        Sounds are those of Extractor.features. Raises InputError for an invalid sound, for one
        shorter than a window and, unless `truncate` cuts it, for one that is too long.
        """
        sounds = as_sounds(sounds)
        memory.check(f"{len(sounds):,} sounds", len(sounds) * self.length * self.bands * 4)
        return np.stack([self._row(read_sound(source, self.rate, rate, None), truncate) for source in sounds])

    def inputs(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> dict[str, np.ndarray]:
        """The features of sounds by the name of the graph's input."""
        return {self.port: self.features(sounds, rate, truncate)}

    def _row(self, samples: np.ndarray, truncate: bool | None) -> np.ndarray:
        """The features (F,M) of samples (N,); logarithms rounded to float32 before they are normalised."""
        longest = WINDOW + HOP * self.length - 1
        if samples.size < WINDOW:
            raise InputError(
                f"a sound is {samples.size} samples long at {self.rate} Hz, expected at least {WINDOW}"
            )
        if samples.size > longest and not truncate:
            raise InputError(
                f"a sound is {samples.size / self.rate:.2f} s long, expected at most "
                f"{longest / self.rate:.2f} s; shorten it, or cut it with truncate=True (--truncate)"
            )
        bands = log_bands(samples[:longest].astype(np.float64), self.window, self.filters)
        padded = np.zeros((self.length, self.bands), np.float32)
        padded[: len(bands)] = bands
        return (padded - np.float32(self.mean)) / np.float32(self.scale) if self.normalize else padded


def log_bands(samples: np.ndarray, window: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """The logarithms of mel bands (F,M) float32 of samples (N,) float64, at least one window of them."""
    frames = sliding_window_view(samples, WINDOW)[::HOP]
    frames = frames - frames.mean(axis=1, keepdims=True)
    emphasised = frames - PREEMPHASIS * np.pad(frames[:, :-1], ((0, 0), (1, 0)), mode="edge")
    emphasised[:, 0] = frames[:, 0] * (1 - PREEMPHASIS)
    spectrum = np.fft.rfft(emphasised * window, FFT).astype(np.complex64)
    power = np.abs(spectrum, dtype=np.float64) ** 2  # (F, FFT // 2 + 1)
    return np.log(np.maximum(power @ filters, FLOOR)).astype(np.float32)


def loud_bands(samples: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """As `log_bands`, of samples (N,) between -1 and 1 as 16-bit numbers, with Povey's window, in pieces."""
    scaled, step = samples.astype(np.float32) * np.float32(LOUDEST), AT_ONCE * HOP
    pieces = [
        scaled[first : first + step - HOP + WINDOW] for first in range(0, samples.size - WINDOW + 1, step)
    ]
    return np.concatenate([log_bands(piece.astype(np.float64), POVEY, filters) for piece in pieces])


def mel_filters(bands: int, rate: int) -> np.ndarray:
    """Filters from 20 Hz to half the rate that are triangles on Kaldi's mel scale, (FFT // 2 + 1, M)."""

    def mel(hertz: Any) -> Any:
        return 1127 * np.log(1 + hertz / 700)

    edges = np.linspace(mel(LOWEST), mel(rate // 2), bands + 2)
    bins = mel(rate / FFT * np.arange(FFT // 2 + 1))[:, None]
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    triangles = np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))
    return np.maximum(triangles, 0)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


EXTRACTOR = FilterBank
