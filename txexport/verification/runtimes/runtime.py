"""The interface of a runtime, and a session over any function that computes outputs."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from txexport.bundle.manifest import Manifest
from txexport.errors import BundleError, first_line
from txexport.inspection.graph_stats import ports
from txexport.runtime.engines.computed import Compute, Computed
from txexport.runtime.session import Session
from txexport.spec import ModelSpec

Files = Mapping[str, Path]  # graphs by role
Options = Mapping[str, str]  # of ONNX Runtime's sessions, as a manifest has them
Open = Callable[[Files, str | None, Options], AbstractContextManager[tuple[str, dict[str, Session]]]]


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True)
class Runtime:
    """A runtime by the name that verify takes.

    `open` yields the device and a session for each file, for a wanted device and session options; it raises
    BundleError for a graph that cannot be loaded. `missing`, `refuses` and `skips` return a reason or None:
    if the runtime is not installed, if it cannot run a bundle in this form, and if a case would take too
    long. `versions` are those of its packages; `devices` is true if it has others than the CPU.
    """

    name: str
    open: Open
    devices: bool = False
    versions: Callable[[], dict[str, str]] = dict
    missing: Callable[[], str | None] = _nothing
    refuses: Callable[[Path, Manifest], str | None] = _nothing
    skips: Callable[[ModelSpec, Any], str | None] = _nothing


def load(path: Path, name: str, build: Callable[[Path], Compute]) -> Session:
    """A session of the runtime `name` for the function that `build` returns for the file.

    Raises BundleError if the file cannot be loaded.
    """
    try:
        compute = build(path)
    except Exception as error:  # of the runtime's own, of any kind
        raise BundleError(f"{name} cannot load {path}: {first_line(error)}") from error
    graph = onnx.load(path, load_external_data=False).graph
    return Session(Computed(ports(graph.input), ports(graph.output), compute), "cpu", name)
