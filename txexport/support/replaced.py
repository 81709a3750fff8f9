"""Files that are complete or not there."""

import contextlib
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

    The folder of `path` is made if there is none. A link is followed, and a file's permissions stay.
    """
    path = path.resolve() if path.is_symlink() else path
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{os.getpid()}.{path.name}")  # whose ending stays
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
        with contextlib.suppress(OSError):  # a file system that is read only
            draft.unlink(missing_ok=True)
