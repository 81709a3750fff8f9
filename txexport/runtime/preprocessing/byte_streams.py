"""Bytes of a path or of a binary stream, read from its position on."""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from txexport.errors import InputError, reason
from txexport.support.paths import is_url


class ByteStream(io.RawIOBase):
    """A binary stream whose position 0 is where it stood; a read is short only at the end.

    Closing it leaves the stream open.
    """

    def __init__(self, stream: Any, name: str):
        self.stream, self.name = stream, name
        self.can_seek = bool(stream.seekable()) if hasattr(stream, "seekable") else False
        self.start = stream.tell() if self.can_seek else 0

    def readable(self) -> bool:
        """Return true."""
        return True

    def seekable(self) -> bool:
        """Return whether the stream can seek."""
        return self.can_seek

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes, or all up to the end. Raises InputError where they cannot be read."""
        parts: list[bytes] = []
        left = size
        try:
            while left and (part := self.stream.read(left)):
                parts.append(part)
                left -= len(part) if size > 0 else 0
        except (OSError, ValueError) as error:  # ValueError: it was closed
            raise InputError(f"sound {self.name} cannot be read: {reason(error)}") from None
        return b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, and return the number of bytes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset from the start, from here, or from the end; return the new position."""
        position = self.stream.seek(offset + (self.start if whence == os.SEEK_SET else 0), whence)
        return int(position) - self.start

    def tell(self) -> int:
        """The position."""
        return int(self.stream.tell()) - self.start

    def left(self) -> int | None:
        """The number of bytes up to the end; None for a stream that cannot seek."""
        if not self.can_seek:
            return None
        position = self.tell()
        size = self.seek(0, os.SEEK_END)
        self.seek(position)
        return size - position


@contextmanager
def open_bytes(source: Any) -> Iterator[ByteStream]:
    """Open a path, or a binary stream that stays open. Raises InputError for what cannot be read."""
    if hasattr(source, "read"):
        name = str(getattr(source, "name", "file"))
        if isinstance(getattr(source, "file", source), io.TextIOBase):  # `file` is that of a temporary file
            raise InputError(f"sound {name} is a text stream; open it in binary mode")
        if getattr(source, "closed", False):
            raise InputError(f"sound {name} is closed; open it for reading")
        if hasattr(source, "readable") and not source.readable():
            raise InputError(f"sound {name} is open for writing only; open it for reading")
        yield ByteStream(source, name)
        return
    path = os.fspath(source)
    if is_url(path):
        raise InputError(f"sound {path} is an address on the web; download it, and give the file")
    try:
        file = io.BufferedReader(io.FileIO(path))
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise InputError(f"sound {path} cannot be read: {reason(error)}") from None
    with file:
        yield ByteStream(file, str(path))
