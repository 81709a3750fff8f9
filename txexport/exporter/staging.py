"""Staging: export writes a temporary folder beside `out`, which replaces `out` when it is complete."""

import contextlib
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from txexport import bundle
from txexport.bundle import swap
from txexport.errors import BundleError, reason


@contextlib.contextmanager
def placed(out: Path, source: Path, force: bool) -> Iterator[Path]:
    """A new folder beside `out`, renamed to `out` when the body ends and removed if it fails.

    Until then `out` is unchanged: if this process is killed, it holds either the old bundle or the new one.
    Leftovers of killed exports are removed. Raises BundleError, for example if another export writes to
    `out`.
    """
    try:
        check_replaceable(out, source, force)
        out.parent.mkdir(parents=True, exist_ok=True)
        with swap.locked(out):
            _tidy(out)
            check_replaceable(
                out, source, force
            )  # another export may have ended before this one got the lock
            partial = swap.beside(out, swap.PARTIAL)
            partial.mkdir()
            try:
                yield partial
                check_replaceable(out, source, force)  # and somebody may have written there meanwhile
                swap.put(partial, out)
            finally:
                _tidy(out)
    except OSError as error:
        raise BundleError(f"{out} could not be written: {reason(error)}; it is unchanged") from error


def check_replaceable(out: Path, source: Path, force: bool) -> None:
    """Raise BundleError unless `out` is free, an empty folder, or a bundle that `force` may replace.

    A folder within a bundle is refused: its files would count as changes of the bundle.
    """
    around = out.absolute().parents
    if outer := next((one for one in around if (one / bundle.MANIFEST).is_file()), None):
        raise BundleError(f"{out} is within the bundle {outer}; choose a folder outside it")
    if swap.is_free(out):
        return
    if not (out / bundle.MANIFEST).is_file():
        raise BundleError(f"{out} exists and is not a bundle; choose another folder")
    if not force:
        raise BundleError(f"{out} exists; choose another folder, or --force to replace it")
    if source.resolve().is_relative_to(out):
        raise BundleError(f"{out} holds the checkpoint itself; choose another folder")
    known = _files(out)
    if not known:
        raise BundleError(f"{out} has a {bundle.MANIFEST} that cannot be read; remove the folder yourself")
    strange = _strange(out, known)
    if strange:
        shown = ", ".join(strange[:3])
        if (out / bundle.MANIFEST).is_symlink():
            raise BundleError(
                f"{out} holds links ({shown}), as a model hub's cache does; copy the folder, and use the copy"
            )
        raise BundleError(f"{out} holds files that no export wrote ({shown}); move them away")


def _strange(folder: Path, known: set[str]) -> list[str]:
    """The files and folders in a folder that are neither `known` nor parents of known files.

    Links are always included, and never followed.
    """
    needed = {parent.as_posix() for name in known for parent in PurePosixPath(name).parents}
    strange = []
    for parent, folders, files in os.walk(folder):
        for names, expected in ((folders, needed), (files, known)):
            paths = {Path(parent, name).relative_to(folder).as_posix(): Path(parent, name) for name in names}
            strange += [name for name, path in paths.items() if name not in expected or path.is_symlink()]
    return sorted(strange)


def _tidy(out: Path) -> None:
    """Undo and remove leftovers of exports to `out`; call it under the lock."""
    swap.put_back(out)
    for folder in swap.leftovers(out, swap.PARTIAL):
        if _files(folder):  # a complete export, or the former `out` that was exchanged with it
            _discard(out, folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for folder in swap.leftovers(out, swap.OLD):
        if (out / bundle.MANIFEST).is_file():
            _discard(out, folder)
        else:
            _warn(f"the bundle that was at {out} is now at {folder}, since its place is taken")
    for folder in swap.leftovers(out, swap.REPLACED):
        _remove(folder)


def _files(folder: Path) -> set[str]:
    """The files of the bundle in a folder, also of an older txexport; none if there is no complete one."""
    for read in (bundle.listed_files, bundle.older_files):
        try:
            return {
                *read(folder),
                *(path.name for path in folder.iterdir() if bundle.DRAFT.fullmatch(path.name)),
            }
        except BundleError:
            continue
    return set()


def _discard(out: Path, folder: Path) -> None:
    """Remove a former bundle, so that it is never restored or taken for an unfinished export."""
    try:
        os.rename(folder, swap.beside(out, swap.REPLACED))
    except OSError as error:
        _warn(f"{folder} could not be removed: {reason(error)}")


def _remove(folder: Path) -> None:
    """Remove a bundle's files, its manifest last, and empty folders; other files stay."""
    known = _files(folder) - {bundle.MANIFEST}
    try:
        for parent, _, files in os.walk(folder, topdown=False):
            for path in (Path(parent, name) for name in files):
                if path.relative_to(folder).as_posix() in known and not path.is_symlink():
                    path.unlink()
            if Path(parent) != folder and not os.listdir(parent):
                os.rmdir(parent)
        strange = sorted(set(os.listdir(folder)) - {bundle.MANIFEST})
        if strange:
            _warn(f"{folder} has files that no export wrote ({', '.join(strange[:3])}); move them away")
            return
        (folder / bundle.MANIFEST).unlink(missing_ok=True)
        folder.rmdir()
    except OSError as error:
        _warn(f"{folder} could not be removed: {reason(error)}")


def _warn(message: str) -> None:
    warnings.warn(message, stacklevel=5)
