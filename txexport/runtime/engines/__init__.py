"""Engines that run graphs, one module each; its `open_graphs` is an Open."""

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
)  # what is computed in, whatever weights are stored as
THREADS = 1024  # at most, of one operator


@dataclass(frozen=True)
class Opened:
    """A bundle's graphs opened in an engine: the device, sessions by role, and their manifest."""

    manifest: Manifest
    device: str
    sessions: dict[str, Session]


# The graphs of a bundle's folder and manifest on a device, with so many threads, computed in a precision.
# Raises InputError for what the engine has not here, BundleError for graphs that it cannot load.
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
