"""Sound to log-mel features, as Whisper takes them; N samples, M mel bands, F frames."""

import math
import os
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from txexport.errors import BundleError, InputError, UnsupportedError, first_line, shown
from txexport.runtime import memory
from txexport.runtime.preprocessing.preprocessor import read_settings
from txexport.support.arguments import is_whole

Source: TypeAlias = str | os.PathLike[str] | np.ndarray

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
SINGLE = {"padding_side": "right", "dither": 0.0}  # the supported values; dither is random noise
COUNTS = ("feature_size", "sampling_rate", "hop_length", "chunk_length", "n_fft")
HIGHEST = 8000.0  # Hz, at any sampling rate
FASTEST = 384_000  # Hz, of a sound to resample: the filter grows with the rate
TAPS = 2**24  # of all phases of the filter
LOUDEST = 1e6  # far above the amplitudes of sounds
FRAMES = 2**26  # numbers of all frames of a sound, which are in memory at once

# The resampling filter: the lower Nyquist frequency is where its stopband begins.
CROSSINGS, KAISER, CUTOFF = 64, 9.0, 0.955


class Audio:
    """The feature extractor of a Whisper checkpoint.

    `rate` is its sampling rate in Hz, `samples` the most that one sound may have at that rate.
    Raises BundleError for settings that are missing or damaged, UnsupportedError for another extractor.
    """

    def __init__(self, folder: Path):
        settings = read_settings(folder, "feature_extractor")
        kind = settings.get("feature_extractor_type")
        if kind != "WhisperFeatureExtractor":
            raise UnsupportedError(
                f"feature extractor {kind} is not supported; expected WhisperFeatureExtractor"
            )
        options = DEFAULTS | {name: settings[name] for name in DEFAULTS if settings.get(name) is not None}
        for name in COUNTS:
            if not isinstance(options[name], int) or options[name] < 1:
                raise BundleError(
                    f"feature extractor: {name} is {shown(options[name])}, expected a whole number from 1"
                )
        for name, value in SINGLE.items():
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

        A sound is the path of a WAV file, or an array (N,) of floats between -1 and 1 at `rate` Hz, by
        default the model's rate. Other rates are resampled. Raises InputError for an invalid sound and,
        unless `truncate` cuts it, for one that is too long; with None, the message does not name `truncate`.
        """
        sounds = as_sounds(sounds)
        memory.check(
            f"{len(sounds):,} sounds", len(sounds) * self.filters.shape[1] * self.samples // self.hop * 4
        )
        longest = None if truncate else self.samples
        cure = "cut it" if truncate is None else "shorten it, or cut it with truncate=True (--truncate)"
        read = (read_sound(source, self.rate, rate, longest, cure) for source in sounds)
        rows = [self._row(samples[: self.samples]) for samples in read]
        return np.ascontiguousarray(np.stack(rows))

    def _row(self, samples: np.ndarray) -> np.ndarray:
        """The features (M,F) of samples (N,), in float64 up to the result."""
        padded = np.full(self.samples, self.silence)
        padded[: samples.size] = samples
        size = self.window.size
        frames = sliding_window_view(np.pad(padded, size // 2, mode="reflect"), size)[:: self.hop]
        power = np.abs(np.fft.rfft(frames[:-1] * self.window)) ** 2  # (F, n_fft // 2 + 1)
        bands = np.log10(np.maximum(power @ self.filters, 1e-10))  # (F, M)
        return ((np.maximum(bands, bands.max() - 8) + 4) / 4).T.astype(np.float32)


def as_sounds(sounds: Source | Sequence[Source]) -> Sequence[Source]:
    """One sound or several as a list. Raises InputError for an empty list."""
    if isinstance(sounds, str) or not isinstance(sounds, Sequence):
        return [sounds]
    if not sounds:
        raise InputError("no sound was given; expected the path of a WAV file, an array, or a list of these")
    return sounds


def read_sound(
    source: Source, target: int, rate: int | None, longest: int | None, cure: str = "cut it"
) -> np.ndarray:
    """Samples (N,) at `target` Hz of a WAV file, or of an array at `rate` Hz, by default `target`.

    Raises InputError for an invalid sound, and for one of more than `longest` samples at the target; `cure`
    is the advice in that message.
    """
    if isinstance(source, str | os.PathLike):
        seconds = None if longest is None else longest / target
        samples, own_rate = read_wav(source, seconds, cure)
    else:
        samples, own_rate = _array(source), target if rate is None else rate
    if not is_whole(own_rate, 1, FASTEST):
        raise InputError(f"a rate is {shown(own_rate)}, expected a whole number of Hz, from 1 to {FASTEST}")
    if samples.ndim != 1 or not np.issubdtype(samples.dtype, np.floating):
        raise InputError(f"a sound is {samples.dtype} {samples.shape}, expected floats (N,) between -1 and 1")
    if not samples.size or not np.isfinite(samples).all():
        wrong = f"{(~np.isfinite(samples)).sum():,} of {samples.size:,}"
        raise InputError(
            f"a sound has no samples, or some that are not finite: {wrong}; correct it or leave it out"
        )
    if longest is not None and samples.size * target > longest * own_rate:
        raise _too_long(samples.size / own_rate, longest / target, cure)
    return resample(samples, int(own_rate), target)


def _too_long(seconds: float, most: float, cure: str) -> InputError:
    return InputError(f"a sound is {seconds:.2f} s long, expected at most {int(most)} s; {cure}")


def _array(sound: object) -> np.ndarray:
    try:
        return np.asarray(sound)
    except (TypeError, ValueError, OverflowError):  # rows of several lengths
        raise InputError(
            f"a sound is {type(sound).__name__}, expected floats (N,) between -1 and 1"
        ) from None


def mel_filters(bands: int, n_fft: int, rate: int) -> np.ndarray:
    """Triangular filters of equal area from 0 to 8000 Hz, (n_fft // 2 + 1, M).

    On the mel scale of Slaney's Auditory Toolbox (1998): linear up to 1000 Hz, which is 15 mel, and then
    logarithmic, 27 mel for a factor of 6.4.
    """
    mel = np.linspace(0, 15 + 27 * math.log(HIGHEST / 1000, 6.4), bands + 2)
    hertz = np.where(mel < 15, mel * 200 / 3, 1000 * 6.4 ** ((mel - 15) / 27))
    bins = np.linspace(0, rate // 2, n_fft // 2 + 1)[:, None]
    low, middle, high = hertz[:-2], hertz[1:-1], hertz[2:]
    triangles = np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle))
    return np.maximum(triangles, 0) * 2 / (high - low)


def read_wav(
    path: str | os.PathLike[str], longest: float | None = None, cure: str = "cut it"
) -> tuple[np.ndarray, int]:
    """Samples (N,) float32 between -1 and 1, the mean of all channels, and their rate in Hz.

    Reads PCM of 8, 16, 24 or 32 bits. Raises InputError for any other file and, before it is decoded, for one
    of more than `longest` seconds; `cure` is the advice in that message.
    """
    try:
        with wave.open(os.fspath(path), "rb") as file:
            channels, width, rate, count = file.getparams()[:4]
            most = os.path.getsize(path) // (channels * width)  # whatever the header says
            data = file.readframes(min(count, most))
    except OSError as error:
        raise InputError(f"sound {path} cannot be read: {error}") from None
    except Exception as error:  # wave raises many types for damaged files
        message = first_line(error) if str(error) else "it ends too soon"
        raise InputError(f"sound {path} is not a PCM WAV file: {message}; convert it to one") from None
    if len(data) != count * channels * width:
        raise InputError(f"sound {path} is cut short: {len(data)} of {count * channels * width} bytes")
    if width > 4 or not rate:
        raise InputError(f"sound {path} has {8 * width} bits at {rate} Hz, expected 8, 16, 24 or 32 bits")
    if longest is not None and count > longest * rate:
        raise _too_long(count / rate, longest, cure)
    octets = np.frombuffer(data, np.uint8).reshape(count, channels, width)
    if width == 1:
        octets = octets ^ np.uint8(0x80)  # only 8-bit samples are unsigned
    widened = np.zeros((count, channels, 4), np.uint8)
    widened[..., 4 - width :] = octets
    samples = widened.view("<i4")[..., 0] / 2**31  # (N, channels)
    return samples.mean(axis=1).astype(np.float32), rate


def resample(samples: np.ndarray, rate: int, target: int) -> np.ndarray:
    """Samples (N,) at `rate` Hz as samples (ceil(N * target / rate),) float32 at `target` Hz.

    A Kaiser-windowed sinc filter, one set of taps a phase (J. O. Smith, Digital Audio Resampling, 2002). Up
    to 0.91 of the lower Nyquist frequency, amplitudes are exact to 1e-4; aliases are below -90 dB.
    """
    common = math.gcd(rate, target)
    up, down = target // common, rate // common
    if up == down:
        return samples.astype(np.float32)
    cutoff = CUTOFF * min(1, up / down)
    half = math.ceil(CROSSINGS / cutoff)
    padded = np.pad(samples.astype(np.float64), half)
    result = np.empty(-(-samples.size * up // down), np.float32)
    offsets, phases = np.arange(-half, half + 1), min(up, result.size)
    if phases * offsets.size > TAPS:
        raise InputError(
            f"a rate of {rate} Hz is no simple ratio to {target}; convert the sound, for example to 48000 Hz"
        )
    at_once = max(1, TAPS // 256 // offsets.size)
    for first in range(0, phases, at_once):
        starts, rests = np.divmod(np.arange(first, min(first + at_once, phases)) * down, up)
        x = offsets - rests[:, None] / up  # (phases, taps)
        taps = np.sinc(cutoff * x) * np.i0(KAISER * np.sqrt(np.maximum(1 - (x / half) ** 2, 0)))
        taps /= taps.sum(axis=1, keepdims=True)
        for phase, (start, phase_taps) in enumerate(zip(starts.tolist(), taps, strict=True), first):
            spans = sliding_window_view(padded[start:], offsets.size)[::down]
            outputs = result[phase::up]
            outputs[:] = spans[: outputs.size] @ phase_taps
    return result
