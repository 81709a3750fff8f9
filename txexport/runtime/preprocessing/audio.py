"""Sounds read from files, streams and arrays at the rate of a model; N samples."""

import io
import math
import os
from collections.abc import Iterator, Sequence
from numbers import Number
from tempfile import _TemporaryFileWrapper
from typing import IO, TypeAlias

import numpy as np

from txexport.errors import InputError, shown
from txexport.runtime.preprocessing.resampling import resampled
from txexport.runtime.preprocessing.sound_files import RawPCM, open_sound
from txexport.support.arguments import is_whole

Source: TypeAlias = str | os.PathLike[str] | bytes | io.IOBase | IO[bytes] | RawPCM | np.ndarray

STREAMS = (io.IOBase, _TemporaryFileWrapper)  # NamedTemporaryFile is no io.IOBase
SINGLE = (str, os.PathLike, bytes, np.ndarray, *STREAMS, RawPCM)  # one sound, not a list
# Hz. The resampling filter grows with the rate, and the resampled sound with its inverse.
SLOWEST, FASTEST = 1000, 384_000
LOUDEST = 2.0**31  # of samples that nobody has scaled; the squares of far larger ones are infinite


def as_sounds(sounds: Source | Sequence[Source]) -> Sequence[Source]:
    """One sound or several as a list. Raises InputError for an empty list."""
    if isinstance(sounds, str) or not isinstance(sounds, Sequence):
        return [sounds]
    if not sounds:
        raise InputError(
            "no sound was given; expected the path of a sound file, an array, or a list of these"
        )
    return [sounds] if isinstance(sounds, bytes) else sounds


def read_sound(
    source: Source, target: int, rate: int | None, longest: int | None, cure: str = "cut it"
) -> np.ndarray:
    """Samples (N,) float32 of a sound. Arguments and errors as `read_blocks`."""
    return np.concatenate([*read_blocks(source, target, rate, longest, cure)])


def read_blocks(
    source: Source,
    target: int,
    rate: int | None = None,
    longest: int | None = None,
    cure: str = "cut it",
) -> Iterator[np.ndarray]:
    """Blocks float32 at `target` Hz of a file, its bytes, a binary stream, or an array at `rate` Hz.

    The rate of an array is by default `target`.
    Raises InputError for an invalid sound, and for one of more than `longest` samples at the target, before
    it is decoded where its length is known; `cure` is the advice in that message.
    """
    source = io.BytesIO(source) if isinstance(source, bytes) else source
    if isinstance(source, (str, os.PathLike, *STREAMS, RawPCM)):
        with open_sound(source) as sound:
            yield from _checked(sound.blocks, sound.rate, sound.frames, target, longest, cure)
    else:
        samples = _array(source)
        hertz = target if rate is None else rate
        yield from _checked(iter([samples]), hertz, None, target, longest, cure)


def _checked(
    blocks: Iterator[np.ndarray],
    rate: int,
    count: int | None,
    target: int,
    longest: int | None,
    cure: str,
) -> Iterator[np.ndarray]:
    """Blocks of `count` samples at `rate` Hz, checked and resampled to `target` Hz."""
    if not is_whole(rate, SLOWEST, FASTEST):
        expected = f"expected a whole number of Hz, from {SLOWEST} to {FASTEST}"
        raise InputError(f"a rate is {shown(rate)}, {expected}")
    if longest is not None and count is not None and count * target > longest * rate:
        raise _too_long(count / rate, longest / target, cure)
    yield from resampled(_valid(blocks, rate, target, longest, cure), int(rate), target)


def _valid(
    blocks: Iterator[np.ndarray], rate: int, target: int, longest: int | None, cure: str
) -> Iterator[np.ndarray]:
    """The same blocks. Raises InputError for those that are no sound, and where they are too long."""
    count = 0
    for block in blocks:
        if block.ndim != 1 or not np.issubdtype(block.dtype, np.floating):
            raise InputError(f"a sound is {block.dtype} {block.shape}, expected floats (N,) between -1 and 1")
        with np.errstate(over="ignore"):  # also those that are infinite in float32
            finite = np.isfinite(block.astype(np.float32, copy=False))
        if not finite.all():
            wrong = np.count_nonzero(~finite)
            message = f"a sound has {wrong:,} of {block.size:,} samples that are not finite"
            raise InputError(f"{message}; correct it or leave it out")
        if (loudest := np.abs(block).max(initial=0)) > LOUDEST:
            raise InputError(f"a sound has samples up to {loudest:.3g}, expected floats between -1 and 1")
        count += block.size
        if longest is not None and count * target > longest * rate:
            raise _too_long(count / rate, longest / target, cure)
        yield block
    if not count:
        raise InputError("a sound has no samples; leave it out")


def _too_long(seconds: float, most: float, cure: str) -> InputError:
    milliseconds = math.ceil(seconds * 1000)  # so that the two differ
    return InputError(f"a sound is {milliseconds / 1000:.10g} s long, expected at most {most:g} s; {cure}")


def _array(sound: object) -> np.ndarray:
    if isinstance(sound, np.ndarray) and sound.ndim == 0:
        sound = sound.item()
    if sound is None or isinstance(sound, Number):  # such as one sample, of a list of them
        raise InputError(
            f"a sound is {shown(sound)}, expected the path or the bytes of a file, or an array (N,) of "
            "floats between -1 and 1; a list is several sounds"
        )
    try:
        return np.asarray(sound)
    except (TypeError, ValueError, OverflowError):  # rows of several lengths
        raise InputError(
            f"a sound is {type(sound).__name__}, expected floats (N,) between -1 and 1"
        ) from None
