"""Paths that a checkpoint or a bundle names, links that it holds, and hashes of its files.

Nothing outside its folder is read.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

CHAT_TEMPLATES = "additional_chat_templates"  # the folder of those that have a name
BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # a file of the hub's cache
LONGEST_NAME = 200  # characters of a name, which file systems limit to 255 bytes


def stays_inside(name: object) -> bool:
    """Tell whether a path that a file names leads to its own folder or below, on every system."""
    if not isinstance(name, str) or "\0" in name or "\\" in name:
        return False
    parts = PurePosixPath(name).parts
    return not (
        PureWindowsPath(name).anchor or ".." in parts or any(len(part) > LONGEST_NAME for part in parts)
    )


def links_out(path: Path, folder: Path) -> bool:
    """Tell whether `path`, which is below `folder`, leads out of it through a link.

    In the cache of the Hugging Face Hub every file of REPOSITORY/snapshots/REVISION is a link to one of
    REPOSITORY/blobs: such links of the folder's own repository do not count (see `_is_blob`).
    """
    real, target = Path(os.path.realpath(folder)), Path(os.path.realpath(path))
    if target.is_relative_to(real):
        return False
    for revision in (real, *real.parents):
        if revision.parent.name == "snapshots":
            return not _is_blob(path, target, revision.parent.parent)
    return True


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Name the file in an OSError that names none, as that of a disk which is full while it is written."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def write_text(path: str | Path, text: str) -> None:
    """Write a file of text in UTF-8. Raises OSError, which names it."""
    with writing(path):
        Path(path).write_text(text, encoding="utf-8")


def _is_blob(path: Path, target: Path, repository: Path) -> bool:
    """Tell whether `path` links directly to `target`, a file of a `repository` in the hub's cache.

    A blob is a file in the folder blobs itself, whose name is the digest that the hub tells, SHA-1 or
    SHA-256. A link by way of another one is none: whoever owns that one could point it elsewhere later.
    """
    if not (path.is_symlink() and target.is_file() and BLOB.fullmatch(target.name)):
        return False
    beside = os.path.realpath(path.parent)
    direct = Path(os.path.normpath(os.path.join(beside, os.readlink(path))))
    return direct == target and target.parent == repository / "blobs"


def sha256(file: Path) -> str:
    """Hex digest of a file's bytes. Raises OSError."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
