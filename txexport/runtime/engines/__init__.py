"""Engines that run graphs; each module has an `open_graphs` of type Open."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from txexport.bundle.manifest import Manifest
from txexport.errors import InputError, needed_for, shown
from txexport.runtime.session import Session
from txexport.support.arguments import is_whole

ENGINES = ("onnxruntime", "openvino")
FLOAT32, BFLOAT16 = PRECISIONS = (
    "float32",
    "bfloat16",
)  # the type of the computation, whatever type weights have
THREADS = 1024  # at most, of one operator


@dataclass(frozen=True)
class Opened:
    """A bundle's graphs opened in an engine: the device, sessions by role, and their manifest.

    `later` opens a graph that runs after generation, which few callers need.
    """

    manifest: Manifest
    device: str
    sessions: dict[str, Session]
    later: Callable[[str], Session] | None = None


# Opens the graphs of a bundle (folder, manifest) on a device, with a number of threads and a precision.
# Raises InputError for a device or precision that is not available, BundleError for graphs that do not load.
Open: TypeAlias = Callable[[Path, Manifest, str | None, int | None, str], Opened]


def opener(engine: str, threads: int | None, precision: str) -> Open:
    """The `open_graphs` of an engine. Raises InputError for an unknown engine or option."""
    for name, value, known in (("engine", engine, ENGINES), ("precision", precision, PRECISIONS)):
        if value not in known:
            raise InputError(f"{name} is {shown(value)}, expected {' or '.join(known)}")
    if threads is not None and not is_whole(threads, 0, THREADS):
        raise InputError(f"threads is {shown(threads)}, expected a whole number from 0 to {THREADS}")
    with needed_for("running a bundle"):
        return import_module(f"{__name__}.{engine}").open_graphs
