"""A folder put in the place of another, whole or not at all: the lock, the exchange, and the way back.

Exports to the folder NAME work beside it, in folders that only who holds the lock may touch: one called
`.NAME.txexport-partial-…` is being written; one called `.NAME.txexport-old-…` was NAME, and is put back where
NAME is missing; one called `.NAME.txexport-replaced-…` was NAME and is being removed.
"""

import contextlib
import ctypes
import glob
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from txexport.errors import BundleError, reason

PARTIAL, OLD, REPLACED = "partial", "old", "replaced"
AT_FDCWD, RENAME_EXCHANGE, RENAME_SWAP = -100, 2, 2  # of linux/fcntl.h and linux/fs.h; of macOS' sys/stdio.h
TRIES, WAIT = 100, 0.02  # seconds


class LockedError(BundleError):
    """A place to which another process exports."""


if sys.platform == "win32":
    import msvcrt

    def _take(file: int) -> bool:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _take(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # some systems' network locks say the second
            return False
        return True


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the lock of exports to `out`. Raises LockedError at once where another process holds it.

    The system frees the lock of a process that ends, however it ends, so no process id is compared. It holds
    among all processes and containers of one kernel, and over NFS among hosts, where Linux (2.6.12 and newer)
    asks the server; only a mount with nolock or local_lock does not, and there one host at a time may export
    to a place. A file system without locks gives an OSError, and nothing is written or removed there: a
    running export could not be told from a killed one.
    """
    path = out.with_name(f".{out.name}.txexport-lock")
    file = _lock(path, out)
    try:
        yield
    finally:
        _unlock(path, file)


def _lock(path: Path, out: Path) -> int:
    for _ in range(TRIES):
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        if not _take(file):
            os.close(file)
            raise LockedError(f"another export is writing {out}; wait for it, or choose another folder")
        state = os.fstat(file)
        if state.st_nlink and not state.st_size:
            return file
        os.close(file)  # given up between our opening and locking it
    raise BundleError(f"{path} is not empty, so it is no lock file; move it away")


def _unlock(path: Path, file: int) -> None:
    """Remove the lock file, while it is held: whoever has opened it meanwhile sees that it is void.

    It has no name any more, or, for other hosts that may still see one, is no longer empty.
    """
    if sys.platform == "win32":  # where an open file cannot be removed, neither ours nor the next holder's
        os.close(file)
        with contextlib.suppress(OSError):
            path.unlink()
        return
    with contextlib.suppress(OSError):
        path.unlink()
        os.ftruncate(file, 1)
    os.close(file)


def beside(out: Path, kind: str) -> Path:
    """A new name for a folder of that kind of an export to `out`."""
    return out.with_name(f".{out.name}.txexport-{kind}-{os.getpid()}-{time.time_ns()}")


def leftovers(out: Path, kind: str) -> list[Path]:
    """The folders of that kind which exports to `out` have left beside it."""
    folders = out.parent.glob(f".{glob.escape(out.name)}.txexport-{kind}-*-*")
    numbered = (path for path in folders if re.search(r"-\d+-\d+\Z", path.name))
    return sorted(path for path in numbered if path.is_dir() and not path.is_symlink())


def exchange(a: Path, b: Path) -> bool:
    """Let two folders change places in one step; False where the system or the file system cannot."""
    with contextlib.suppress(AttributeError, OSError):  # a C library without the call
        if sys.platform == "linux":
            call = ctypes.CDLL(None).renameat2
            return call(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), RENAME_EXCHANGE) == 0
        if sys.platform == "darwin":
            return ctypes.CDLL(None).renamex_np(os.fsencode(a), os.fsencode(b), RENAME_SWAP) == 0
    return False


def is_free(out: Path) -> bool:
    """Tell whether `out` does not exist or is an empty folder."""
    return not out.exists() or (out.is_dir() and not any(out.iterdir()))


def put(partial: Path, out: Path) -> None:
    """Put `partial` at `out`. What was there lies beside it then, as a leftover.

    Where the system cannot exchange folders there is a moment without either; `put_back` ends it.
    """
    if is_free(out):
        if os.name == "nt" and out.exists():
            out.rmdir()
        os.rename(partial, out)  # takes the place of nothing but an empty folder
    elif not exchange(partial, out):
        old = beside(out, OLD)
        os.rename(out, old)
        os.rename(partial, out)
        os.rename(old, beside(out, REPLACED))


def put_back(out: Path) -> None:
    """Put back what an export has moved away from `out` without putting anything there; under the lock.

    Raises BundleError where that cannot be.
    """
    for old in leftovers(out, OLD):
        if is_free(out):
            try:
                os.rename(old, out)
            except OSError as error:
                raise _away(out, old, error) from None


def recover(folder: Path) -> None:
    """Put back the bundle that a killed export has moved away from `folder`, if one has.

    Raises BundleError where that cannot be.
    """
    if "\0" in str(folder):
        return
    out = Path(os.path.realpath(folder))
    for _ in range(TRIES):
        moved = leftovers(out, OLD)
        if not moved or not is_free(out):
            return
        try:
            with locked(out):
                put_back(out)
        except LockedError:  # by an export that is between its renames, which takes no time
            time.sleep(WAIT)
        except OSError as error:
            raise _away(out, moved[0], error) from None
    raise BundleError(f"another export is writing {out}; try again when it has ended")


def _away(out: Path, old: Path, error: OSError) -> BundleError:
    return BundleError(
        f"{out} lies at {old} since an export was killed, and could not be put back: "
        f"{reason(error)}; rename it"
    )
