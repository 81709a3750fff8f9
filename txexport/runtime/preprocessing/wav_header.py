"""Headers of WAV files (RIFF, IBM and Microsoft 1991; WAVEFORMATEXTENSIBLE for more than 16 bits)."""

import struct
from dataclasses import dataclass
from typing import Any

PCM, EXTENSIBLE = 1, 0xFFFE
PCM_TAIL = (
    b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"  # of the format's GUID, after its number
)
# Sizes that programs write into a pipe, where they do not know them: ffmpeg, arecord, sox.
UNKNOWN = (0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x7FFFF000)
SKIPPED = 2**16  # bytes of other chunks that are read at once


@dataclass(frozen=True)
class Header:
    """The format of a WAV file: its `kind`, channels, rate in Hz, bits and bytes of a sample.

    `size` is that of the data in bytes, None where the program that wrote it did not know.
    """

    kind: int
    channels: int
    rate: int
    bits: int
    width: int
    size: int | None


def read_header(stream: Any) -> Header:
    """The header of a binary stream, which is then at its data. Raises ValueError for another file."""
    if len(start := stream.read(12)) < 12:
        raise ValueError("it ends too soon")
    if start[:4] != b"RIFF":
        raise ValueError("file does not start with RIFF id")
    if start[8:] != b"WAVE":
        raise ValueError("not a WAVE file")
    form: bytes | None = None
    while len(head := stream.read(8)) == 8:
        name, size = head[:4], struct.unpack("<I", head[4:])[0]
        if name == b"data":
            if form is None:
                raise ValueError("data chunk before fmt chunk")
            return _header(form, None if size in UNKNOWN else size)
        if name == b"fmt ":
            form = stream.read(min(size, 40))
            size -= len(form)
        _skip(stream, size + size % 2)
    raise ValueError("it ends too soon")


def _header(form: bytes, size: int | None) -> Header:
    """The header by the contents of the fmt chunk."""
    if len(form) < 16:
        raise ValueError("it ends too soon")
    kind, channels, rate, _, align, bits = struct.unpack("<HHIIHH", form[:16])
    if kind == EXTENSIBLE and form[26:40] == PCM_TAIL:
        kind = struct.unpack("<H", form[24:26])[0]
    if not channels:
        raise ValueError("it has no channels")
    return Header(kind, channels, rate, bits, align // channels, size)


def _skip(stream: Any, size: int) -> None:
    while size > 0 and (data := stream.read(min(size, SKIPPED))):
        size -= len(data)
