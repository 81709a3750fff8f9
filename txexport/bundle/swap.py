"""Atomic replacement of a folder: the lock, the exchange, and recovery.

Exports to the folder NAME work beside it, in folders that only the holder of the lock may touch.
`.NAME.txexport-partial-…` is being written. `.NAME.txexport-old-…` was NAME, and is put back if NAME is
missing. `.NAME.txexport-replaced-…` was NAME and is being removed.
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
    """The folder is locked: another process exports to it."""


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
        except (BlockingIOError, PermissionError):  # raised by network locks of some systems
            return False
        return True


@contextlib.contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the lock of exports to `out`. Raises LockedError at once if another process holds it.

    The system frees the lock when a process ends for any reason, so no process id is compared. The lock is
    valid among all processes and containers of one kernel, and over NFS among hosts if Linux (2.6.12 and
    newer) asks the server. A mount with nolock or local_lock does not; there only one host at a time may
    export to a folder. A file system without locks raises an OSError, and nothing is written or removed,
    since a running export could not be told from a killed one.
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
        os.close(file)  # released between our opening and locking it
    raise BundleError(f"{path} is not empty, so it is no lock file; move it away")


def _unlock(path: Path, file: int) -> None:
    """Remove the lock file while it is held; a process that has opened it sees that it is void.

    It then has no name, or is no longer empty for other hosts that may still see a name.
    """
    if sys.platform == "win32":  # an open file cannot be removed there
        os.close(file)
        with contextlib.suppress(OSError):
            path.unlink()
        return
    with contextlib.suppress(OSError):
        path.unlink()
        os.ftruncate(file, 1)
    os.close(file)


def beside(out: Path, kind: str) -> Path:
    """A new name for a folder of `kind`, beside `out`."""
    return out.with_name(f".{out.name}.txexport-{kind}-{os.getpid()}-{time.time_ns()}")


def leftovers(out: Path, kind: str) -> list[Path]:
    """The folders of `kind` that exports to `out` have left beside it."""
    folders = out.parent.glob(f".{glob.escape(out.name)}.txexport-{kind}-*-*")
    numbered = (path for path in folders if re.search(r"-\d+-\d+\Z", path.name))
    return sorted(path for path in numbered if path.is_dir() and not path.is_symlink())


def exchange(a: Path, b: Path) -> bool:
    """Exchange two folders atomically; False if the system or the file system cannot."""
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
    """Move `partial` to `out`; the former folder stays beside it as a leftover.

    If the system cannot exchange folders, neither is there for a moment; `put_back` recovers from that.
    """
    if is_free(out):
        if os.name == "nt" and out.exists():
            out.rmdir()
        os.rename(partial, out)  # replaces only an empty folder
    elif not exchange(partial, out):
        old = beside(out, OLD)
        os.rename(out, old)
        os.rename(partial, out)
        os.rename(old, beside(out, REPLACED))


def put_back(out: Path) -> None:
    """Restore the folder that a killed export has moved away from `out`; call it under the lock.

    Raises BundleError if that fails.
    """
    for old in leftovers(out, OLD):
        if is_free(out):
            try:
                os.rename(old, out)
            except OSError as error:
                raise _away(out, old, error) from None


def recover(folder: Path) -> None:
    """Restore the bundle that a killed export has moved away from `folder`, if there is one.

    Raises BundleError if that fails.
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
        except LockedError:  # by an export between its two renames, which take no time
            time.sleep(WAIT)
        except OSError as error:
            raise _away(out, moved[0], error) from None
    raise BundleError(f"another export is writing {out}; try again after it has ended")


def _away(out: Path, old: Path, error: OSError) -> BundleError:
    return BundleError(
        f"{out} was moved to {old} by an export that was killed, and could not be moved back: "
        f"{reason(error)}; rename it"
    )
