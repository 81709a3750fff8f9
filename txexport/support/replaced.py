"""Files that are complete or not there."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from txexport.support.paths import writing


@contextmanager
def replaced(path: Path) -> Iterator[IO[bytes]]:
    """A temporary file that is renamed to `path` on success, and removed on failure.

    The folder of `path` is made if there is none. A link, a device such as /dev/stdout, and a file in a
    folder without write permission are written in place.
    """
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or (path.exists() and not path.is_file()) or not os.access(path.parent, os.W_OK):
        with writing(path), path.open("wb") as stream:
            yield stream
        return
    draft = path.with_name(f".{os.getpid()}.{path.name}")  # with the same suffix, which Pillow reads
    try:
        with writing(path), draft.open("wb") as stream:
            yield stream
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    except OSError as error:
        if error.filename == str(draft):
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8 as `replaced` does. Raises OSError that names it."""
    with replaced(Path(path)) as stream:
        stream.write(text.encode())
