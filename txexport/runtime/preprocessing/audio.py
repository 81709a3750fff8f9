"""Sounds read from WAV files and arrays, and resampled; N samples."""

import math
import os
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from txexport.errors import InputError, first_line, shown
from txexport.support.arguments import is_whole

Source: TypeAlias = str | os.PathLike[str] | np.ndarray

SINGLE = (str, Path, np.ndarray)  # one sound, not a list
FASTEST = 384_000  # Hz, the highest sampling rate read: the resampling filter grows with the rate
TAPS = 2**24  # of all phases of the filter

# The resampling filter: the lower Nyquist frequency is where its stopband begins.
CROSSINGS, KAISER, CUTOFF = 64, 9.0, 0.955


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
