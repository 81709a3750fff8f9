"""Log-mel spectrograms, as Whisper reads them; B sounds, N samples, M mel bands, F frames."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from txexport.contracts.names import INPUT_FEATURES
from txexport.errors import BundleError, UnsupportedError, shown
from txexport.runtime import memory
from txexport.runtime.preprocessing.audio import FASTEST, Source, as_sounds, read_blocks, read_sound
from txexport.runtime.preprocessing.preprocessor import check_kind, extractor_settings

# The defaults of WhisperFeatureExtractor.
DEFAULTS: dict[str, Any] = {
    "feature_size": 80,
    "sampling_rate": 16000,
    "hop_length": 160,
    "chunk_length": 30,
    "n_fft": 400,
    "padding_value": 0.0,
    "padding_side": "right",
    "dither": 0.0,
}
ONLY = {"padding_side": "right", "dither": 0.0}  # the only supported values; dither is random noise
COUNTS = ("feature_size", "sampling_rate", "hop_length", "chunk_length", "n_fft")
HIGHEST = 8000.0  # Hz, at any sampling rate
LOUDEST = 1e6  # far above the amplitudes of sounds
FRAMES = 2**26  # numbers of all frames of a sound, which are in memory at once


class Audio:
    """The feature extractor of a Whisper checkpoint: a log-mel spectrogram (B,M,F) of a fixed length.

    `rate` is its sampling rate in Hz, `samples` the most that one sound may have at that rate.
    Raises BundleError for settings that are missing or damaged, UnsupportedError for another extractor.
    """

    kind = "WhisperFeatureExtractor"
    port, rank = INPUT_FEATURES, 3
    masked, least = False, 1

    def __init__(self, folder: Path):
        settings = extractor_settings(folder)
        check_kind(settings, self.kind)
        options = DEFAULTS | {name: settings[name] for name in DEFAULTS if settings.get(name) is not None}
        for name in COUNTS:
            if not isinstance(options[name], int) or options[name] < 1:
                raise BundleError(
                    f"feature extractor: {name} is {shown(options[name])}, expected a whole number from 1"
                )
        for name, value in ONLY.items():
            if options[name] != value:
                raise UnsupportedError(f"feature extractor: {name} {options[name]!r} is not supported")
        frames = options["chunk_length"] * options["sampling_rate"] // options["hop_length"] + 1
        widest = max(options["n_fft"], options["feature_size"])
        if options["hop_length"] > options["chunk_length"] * options["sampling_rate"]:
            raise BundleError(
                f"feature extractor: hop_length is {shown(options['hop_length'])}, longer than a sound"
            )
        if frames * widest > FRAMES or options["n_fft"] * options["feature_size"] > FRAMES:
            message = ", ".join(f"{name} {shown(options[name])}" for name in COUNTS)
            raise BundleError(f"feature extractor: {message} make more than {FRAMES:,} numbers of a sound")
        if (
            options["sampling_rate"] > FASTEST
            or options["n_fft"] // 2 >= options["chunk_length"] * options["sampling_rate"]
        ):
            raise BundleError(
                f"feature extractor: sampling_rate is {options['sampling_rate']} and n_fft "
                f"{options['n_fft']}, expected at most {FASTEST}, and less than two chunks"
            )
        silence = options["padding_value"]
        if isinstance(silence, bool) or not isinstance(silence, int | float) or not abs(silence) <= LOUDEST:
            raise BundleError(f"feature extractor: padding_value is {shown(silence)}, expected a number")
        self.rate: int = options["sampling_rate"]
        self.samples: int = options["chunk_length"] * self.rate
        self.hop: int = options["hop_length"]
        self.silence = float(silence)
        self.window = np.hanning(options["n_fft"] + 1)[:-1]
        self.filters = mel_filters(options["feature_size"], options["n_fft"], self.rate)

    def features(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> np.ndarray:
        """input_features (B,M,F) float32 of one sound or several, each padded to the model's full length.

        A sound is the path of a sound file, or an array (N,) of floats between -1 and 1 at `rate` Hz, by
        default the model's. Other rates are resampled.
        Raises InputError for an invalid sound, and unless `truncate` cuts it, for one that is too long; None
        is for callers that leave no choice.
        """
        sounds = as_sounds(sounds)
        self.check_count(len(sounds))
        longest = None if truncate else self.samples
        cure = "cut it" if truncate is None else "shorten it, or cut it with truncate=True (--truncate)"
        read = (read_sound(source, self.rate, rate, longest, cure) for source in sounds)
        rows = [self._row(samples[: self.samples]) for samples in read]
        return np.ascontiguousarray(np.stack(rows))

    def recording(self, sound: Source, rate: int | None = None) -> np.ndarray:
        """Features (M,F) float32 of a whole sound of any length; a shorter one is padded to the full length.

        The floor of the spectrogram is by the maximum of the whole sound. Sounds and errors as `features`. An
        hour at 16 kHz takes 0.6 GB while it is computed; its features of 80 bands are 0.12 GB.
        """
        return self.spectrogram(self.read(sound, rate))

    def read(self, sound: Source, rate: int | None = None) -> np.ndarray:
        """The samples (N,) float32 of a sound of any length at the model's rate.

        Raises InputError for an invalid sound, and once more samples are read than fit in memory together
        with their features.
        """
        blocks, size = [], 0
        for block in read_blocks(sound, self.rate, rate):
            size += block.size
            self._check_memory(size)
            blocks.append(block)
        return np.concatenate(blocks)

    def check_count(self, sounds: int) -> None:
        """Raise InputError where the features of that many sounds do not fit in memory."""
        memory.check(f"{sounds:,} sounds", sounds * self.filters.shape[1] * self.samples // self.hop * 4)

    def _check_memory(self, samples: int) -> None:
        """Raise InputError where two copies of the samples and their features do not fit in memory."""
        memory.check("a sound", samples * 8 + self.filters.shape[1] * samples // self.hop * 4)

    def spectrogram(self, samples: np.ndarray) -> np.ndarray:
        """As `recording`, of samples (N,) at the model's rate."""
        if samples.size <= self.samples:
            return self._row(samples)
        self._check_memory(samples.size)
        return self._log_mel(samples)

    def inputs(
        self, sounds: Source | Sequence[Source], rate: int | None = None, truncate: bool | None = None
    ) -> dict[str, np.ndarray]:
        """The features of sounds by the name of the graph's input."""
        return {self.port: self.features(sounds, rate, truncate)}

    def frames(self, samples: int) -> int:
        """The number of frames that begin within that number of samples."""
        return samples // self.hop if samples > self.samples else math.ceil(samples / self.hop)

    def _row(self, samples: np.ndarray) -> np.ndarray:
        """The features (M,F) of samples (N,), padded to the full length."""
        padded = np.full(self.samples, self.silence)
        padded[: samples.size] = samples
        return self._log_mel(padded)

    def _log_mel(self, samples: np.ndarray) -> np.ndarray:
        """The features (M,F) of samples (N,), a piece after another, each in float64 up to its result.

        The floor is applied to the results, since rounding keeps the order of numbers.
        """
        size, piece = self.window.size, self.samples // self.hop
        padded = np.pad(samples, size // 2, mode="reflect")
        frames = sliding_window_view(padded, size)[:: self.hop][:-1]
        features, highest = np.empty((self.filters.shape[1], len(frames)), np.float32), -np.inf
        for first in range(0, len(frames), piece):
            part = frames[first : first + piece] * self.window
            power = np.abs(np.fft.rfft(part)) ** 2  # (F, n_fft // 2 + 1)
            bands = np.log10(np.maximum(power @ self.filters, 1e-10))
            highest = max(highest, bands.max())
            features[:, first : first + piece] = ((bands + 4) / 4).T
        return np.maximum(features, np.float32((highest - 8 + 4) / 4), out=features)


def mel_filters(
    bands: int, n_fft: int, rate: int, highest: float = HIGHEST, lowest: float = 0.0
) -> np.ndarray:
    """Triangular filters of equal area from `lowest` to `highest` Hz, (n_fft // 2 + 1, M).

    On the mel scale of Slaney's Auditory Toolbox (1998): linear up to 1000 Hz, which is 15 mel, and then
    logarithmic, 27 mel for a factor of 6.4.
    """
    first, final = (
        edge * 3 / 200 if edge < 1000 else 15 + 27 * math.log(edge / 1000, 6.4) for edge in (lowest, highest)
    )
    mel = np.linspace(first, final, bands + 2)
    hertz = np.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))
    bins = np.linspace(0, rate // 2, n_fft // 2 + 1)[:, None]
    low, middle, high = hertz[:-2], hertz[1:-1], hertz[2:]
    triangles = np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))
    return np.maximum(triangles, 0) * 2 / (high - low)


EXTRACTOR = Audio
