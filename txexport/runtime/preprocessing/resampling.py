"""Resampling: by the library soxr where it is installed, or else by a filter of our own; N samples."""

import math
from collections.abc import Iterable, Iterator
from types import ModuleType

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from txexport.errors import InputError, install

QUALITY = "VHQ"  # of soxr: 28 bits
SLICE = 2**18  # samples that soxr reads at once
TAPS = 2**24  # of all phases of the filter

# The resampling filter: the lower Nyquist frequency is where its stopband begins.
CROSSINGS, KAISER, CUTOFF = 64, 9.0, 0.955


def resample(samples: np.ndarray, rate: int, target: int) -> np.ndarray:
    """Samples (N,) at `rate` Hz as samples (ceil(N * target / rate),) float32 at `target` Hz."""
    return np.concatenate([*resampled([samples], rate, target)])


def resampled(blocks: Iterable[np.ndarray], rate: int, target: int) -> Iterator[np.ndarray]:
    """The blocks of a sound at `rate` Hz as blocks float32 at `target` Hz, ceil(N * target / rate) in all.

    soxr keeps no more than a part of a block in memory; without it the blocks are joined first.
    """
    if rate == target:
        yield from (block.astype(np.float32) for block in blocks)
    elif (soxr := _soxr()) is None:
        yield sinc_resample(np.concatenate([*blocks]), rate, target)
    else:
        yield from _by_soxr(soxr, blocks, rate, target)


def _soxr() -> ModuleType | None:
    try:
        import soxr
    except ImportError:
        return None
    return soxr


def _by_soxr(soxr: ModuleType, blocks: Iterable[np.ndarray], rate: int, target: int) -> Iterator[np.ndarray]:
    """The blocks resampled; soxr rounds the length, so it gets some zeros more, and the rest is cut."""
    stream = soxr.ResampleStream(rate, target, 1, dtype="float32", quality=QUALITY)
    size = done = 0
    for block in blocks:
        for start in range(0, block.size, SLICE):
            part = block[start : start + SLICE].astype(np.float32)
            output = stream.resample_chunk(part)
            size, done = size + part.size, done + output.size
            yield output
    zeros = np.zeros(2 + rate // target, np.float32)
    yield stream.resample_chunk(zeros, last=True)[: -(-size * target // rate) - done]


def sinc_resample(samples: np.ndarray, rate: int, target: int) -> np.ndarray:
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
            f"a rate of {rate} Hz is no simple ratio to {target}; convert the sound, for example to "
            f"48000 Hz, or {install('audio')}"
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
