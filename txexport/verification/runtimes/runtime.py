"""What verify knows of a runtime, and a session over any that computes outputs from inputs."""

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

    `open` gives, for files, a wanted device and the options that decide which numbers come out, the device
    and a session a file, until its context ends; it raises BundleError for a graph that cannot be loaded. Of
    the others each says why not, or None: `missing` where the runtime is not installed, `refuses` of a bundle
    that it cannot take in this form, `skips` of a case that would take it too long. `versions` are those of
    what was installed for it, `devices` whether it has others than the CPU.
    """

    name: str
    open: Open
    devices: bool = False
    versions: Callable[[], dict[str, str]] = dict
    missing: Callable[[], str | None] = _nothing
    refuses: Callable[[Path, Manifest], str | None] = _nothing
    skips: Callable[[ModelSpec, Any], str | None] = _nothing


def load(path: Path, name: str, build: Callable[[Path], Compute]) -> Session:
    """A session of the runtime `name` over what `build` makes of the file.

    Raises BundleError where it cannot.
    """
    try:
        compute = build(path)
    except Exception as error:  # of the runtime's own, of any kind
        raise BundleError(f"{name} cannot load {path}: {first_line(error)}") from error
    graph = onnx.load(path, load_external_data=False).graph
    return Session(Computed(ports(graph.input), ports(graph.output), compute), "cpu", name)
