"""Sound files read block by block: PCM WAV by its bytes, other formats by libsndfile."""

import io
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

import numpy as np

from txexport.errors import InputError, counted, first_line, install
from txexport.runtime.preprocessing.byte_streams import ByteStream, open_bytes
from txexport.runtime.preprocessing.wav_header import PCM, Header, read_header

BLOCK = 2**18  # samples of all channels that are decoded at once
LEAST = 12  # bytes of the shortest header
# Beginnings of files that are no sounds, and what they are.
OTHERS = {
    b"\x89PNG": "a picture (PNG)",
    b"\xff\xd8\xff": "a picture (JPEG)",
    b"GIF8": "a picture (GIF)",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive, or a document in one",
    b"<!DOCTYPE": "a page of HTML",
    b"<!doctype": "a page of HTML",
    b"<html": "a page of HTML",
}
PIPE_BLOCKS = 4  # blocks in a second of a pipe, whose sound may be spoken while it is read


@dataclass(frozen=True)
class RawPCM:
    """A binary stream of mono samples at `rate` Hz without a header: 16-bit little-endian integers."""

    stream: IO[bytes]
    rate: int


SoundPath: TypeAlias = str | os.PathLike[str] | io.IOBase | RawPCM


@dataclass(frozen=True)
class OpenSound:
    """A sound's `rate` in Hz, the number of `frames` if known before reading, and its `blocks` to read.

    A block is (N,) float32 between -1 and 1, the mean of all channels.
    """

    rate: int
    frames: int | None
    blocks: Iterator[np.ndarray]


@contextmanager
def open_sound(source: SoundPath) -> Iterator[OpenSound]:
    """Open a path or a binary stream, which is read from its position on.

    Reads PCM WAV of 8 to 32 bits, and with the library soundfile float WAV, FLAC, OGG, MP3 and others; a
    stream that cannot seek, such as a pipe, must be PCM WAV. Raises InputError for any other file; its blocks
    do so where it is damaged. WAV, AIFF and FLAC that are cut short are errors too; OGG and MP3 have no
    length in front, and end where they are cut.
    """
    with open_bytes(source.stream if isinstance(source, RawPCM) else source) as stream:
        if isinstance(source, RawPCM):
            yield OpenSound(source.rate, None, _raw_blocks(stream, source.rate))
            return
        header, message = _wav_header(stream)
        if header is not None and header.kind == PCM:
            yield _pcm(header, stream)
        else:
            _check_size(header, stream)
            with _by_libsndfile(source, stream, message) as file:
                yield OpenSound(file.samplerate, file.frames, _decoded(file, stream.name))


def duration(source: SoundPath, longest: float = math.inf) -> float:
    """The seconds of a sound, by decoding it: a header may be wrong.

    Raises InputError for a damaged sound, and for one of more than `longest` seconds.
    """
    with open_sound(source) as sound:
        frames = 0
        for block in sound.blocks:
            frames += block.size
            if frames > longest * sound.rate:
                raise InputError(f"a sound is longer than {longest:g} seconds; cut it")
        return frames / sound.rate


def _wav_header(stream: ByteStream) -> tuple[Header | None, str]:
    """The header of a WAV file, None for another, and why it is no PCM WAV file."""
    if stream.start and stream.left() == 0:
        raise InputError(f"sound {stream.name} is at its end; seek(0) to read it from its beginning")
    if not stream.start and stream.left() == 0:
        raise InputError(f"sound {stream.name} is empty; copy it again")
    try:
        header = read_header(stream)
    except ValueError as error:
        _refuse_other(stream)
        return None, str(error)
    return header, f"unknown format: {header.kind}"


def _refuse_other(stream: ByteStream) -> None:
    """Raise InputError for a file that is no sound, which neither conversion nor a library helps."""
    if not stream.seekable():
        return
    stream.seek(0)
    start = stream.read(LEAST)
    for mark, kind in OTHERS.items():
        if start.startswith(mark):
            raise InputError(f"sound {stream.name} is {kind}; expected the file of a sound")
    if len(start) < LEAST:
        size = counted(len(start), "byte")
        raise InputError(f"sound {stream.name} has {size}, too few for a sound; copy it again")


def _pcm(header: Header, stream: ByteStream) -> OpenSound:
    """A WAV file of PCM. Raises InputError for samples of other sizes."""
    channels, width, bits = header.channels, header.width, header.bits
    if not 1 <= width <= 4 or not 1 <= bits <= 8 * width:
        raise InputError(
            f"sound {stream.name} has {bits} bits in {width} bytes, expected 8, 16, 24 or 32 bits in 1 to 4"
        )
    left = stream.left()
    most = [size for size in (header.size, left) if size is not None]  # the header may be wrong
    frames = None if left is None else min(most) // (channels * width)
    return OpenSound(header.rate, frames, _pcm_blocks(header, stream, frames is not None))


def _pcm_blocks(header: Header, stream: ByteStream, complete: bool) -> Iterator[np.ndarray]:
    """The blocks of a file; unless it must be `complete`, it ends where its bytes end.

    A program that writes into a pipe does not know the length when it writes the header.
    """
    frame = header.channels * header.width
    frames = (
        BLOCK // header.channels if complete else min(BLOCK // header.channels, header.rate // PIPE_BLOCKS)
    )
    count, size = max(1, frames) * frame, 0
    most = math.inf if header.size is None else header.size // frame * frame
    while size < most and (data := stream.read(int(min(count, most - size)))):
        size += len(data)
        if len(data) >= frame:
            yield _samples(data[: len(data) // frame * frame], header.channels, header.width)
    if complete and header.size is not None and size < most:
        raise _cut_short(stream, size, header.size)


def _raw_blocks(stream: ByteStream, rate: int) -> Iterator[np.ndarray]:
    """The blocks of 16-bit samples up to the end; half a sample there is left out."""
    while data := stream.read(2 * max(1, rate // PIPE_BLOCKS)):
        if len(data) > 1:
            yield _samples(data[: len(data) // 2 * 2], 1, 2)


def _check_size(header: Header | None, stream: ByteStream) -> None:
    """Raise InputError for WAV that is no PCM and for AIFF that are shorter than they say."""
    if (left := stream.left()) is None:
        return
    if header is not None and header.size is not None and left < header.size:
        raise _cut_short(stream, left, header.size)
    stream.seek(0)
    start, left = stream.read(8), stream.left()
    size = int.from_bytes(start[4:], "big")
    if start[:4] == b"FORM" and left is not None and left + 1 < size:  # a byte of padding may be missing
        raise _cut_short(stream, left, size)


def _cut_short(stream: ByteStream, size: int, expected: int) -> InputError:
    return InputError(f"sound {stream.name} is cut short: {size} of {expected} bytes")


def _samples(data: bytes, channels: int, width: int) -> np.ndarray:
    """PCM of `width` bytes as samples (N,) float32."""
    octets = np.frombuffer(data, np.uint8).reshape(-1, channels, width)
    if width == 1:
        octets = octets ^ np.uint8(0x80)  # only 8-bit samples are unsigned
    widened = np.zeros((len(octets), channels, 4), np.uint8)
    widened[..., 4 - width :] = octets
    return (widened.view("<i4")[..., 0] / 2**31).mean(axis=1).astype(np.float32)


def _by_libsndfile(source: Any, stream: ByteStream, message: str) -> Any:
    """The file opened by the library soundfile; `message` says why it is no PCM WAV file."""
    reason = f"sound {stream.name} is not a PCM WAV file: {message}"
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: the library is there, and libsndfile is not
        raise InputError(f"{reason}; convert it to one, or for other formats {install('audio')}") from None
    if not stream.seekable():
        raise InputError(f"{reason}; convert it to one, or save it to a file and give its path")
    stream.seek(0)
    try:
        return soundfile.SoundFile(source if isinstance(source, str | os.PathLike) else stream)
    except Exception as error:  # also TypeError, for a name that ends in .raw
        message = first_line(getattr(error, "error_string", error)).rstrip(".")  # without the path
        raise InputError(f"{reason}, and libsndfile cannot read it: {message}; convert it") from None


def _decoded(file: Any, name: str) -> Iterator[np.ndarray]:
    """The blocks that libsndfile decodes."""
    frames = max(1, BLOCK // file.channels)
    try:
        while len(block := file.read(frames, dtype="float32", always_2d=True)):
            yield block.mean(axis=1, dtype=np.float64).astype(np.float32)
    except Exception as error:
        raise InputError(f"sound {name} cannot be decoded: {first_line(error)}; convert it") from None
