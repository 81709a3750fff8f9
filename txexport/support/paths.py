"""Paths in checkpoints and bundles, their links, and hashes of files.

Nothing outside the folder is read.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

CHAT_TEMPLATES = "additional_chat_templates"  # the folder of named templates
LANGUAGE_MODEL = "language_model"  # folder of an n-gram language model, for CTC; ALPHABET has its tokens
ALPHABET = "alphabet.json"
OF_LANGUAGE_MODEL = re.compile(rf"{LANGUAGE_MODEL}/(attrs\.json|unigrams\.txt|[^/.][^/]*\.(arpa|bin|binary))")
FONT = "Arial.TTF"  # of questions that are drawn above images, by the name that transformers downloads
BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # a file of the hub's cache
URL = re.compile(r"https?:/", re.IGNORECASE)
LONGEST_NAME = 200  # characters; file systems limit names to 255 bytes


def stays_inside(name: object) -> bool:
    """Tell whether a path stays in its own folder or below, on every operating system."""
    if not isinstance(name, str) or "\0" in name or "\\" in name:
        return False
    parts = PurePosixPath(name).parts
    return not (
        PureWindowsPath(name).anchor or ".." in parts or any(len(part) > LONGEST_NAME for part in parts)
    )


def is_url(source: object) -> bool:
    """Tell whether a path is an address on the web; Path removes one of the two slashes."""
    return isinstance(source, str | os.PathLike) and URL.match(str(source)) is not None


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
    """Add the file to an OSError that names none, as that of a full disk does."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


def _is_blob(path: Path, target: Path, repository: Path) -> bool:
    """Tell whether `path` links directly to `target`, a file of a `repository` in the hub's cache.

    A file of the cache lies directly in the folder `blobs`; its name is the SHA-1 or SHA-256 digest that the
    hub reports. A link through another link does not count: the owner of the other link could change it
    later.
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
