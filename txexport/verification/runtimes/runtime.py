"""What verify knows of a runtime, and a session over any that computes outputs from inputs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from txexport.errors import BundleError, first_line
from txexport.inspection.graph_stats import ports
from txexport.manifest import Manifest
from txexport.runtime.session import Bound, Session
from txexport.spec import ModelSpec

Files = Mapping[str, Path]  # graphs by role
Arrays = Mapping[str, np.ndarray]
Open = Callable[[Files, str | None], AbstractContextManager[tuple[str, dict[str, Session]]]]
Compute = Callable[[Arrays], Arrays]


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True)
class Runtime:
    """A runtime by the name that verify takes.

    `open` gives, for files and a wanted device, the device and a session a file, until its context ends; it
    raises BundleError for a graph that cannot be loaded. Of the others each says why not, or None: `missing`
    where the runtime is not installed, `refuses` of a bundle that it cannot take in this form, `skips` of a
    case that would take it too long. `versions` are those of what was installed for it, `devices`
    whether it has others than the CPU. `open_exact` opens graphs of integers so that it multiplies with the
    numbers that these stand for, and rounds nothing else; None where it cannot be told to.
    """

    name: str
    open: Open
    devices: bool = False
    versions: Callable[[], dict[str, str]] = dict
    missing: Callable[[], str | None] = _nothing
    refuses: Callable[[Path, Manifest], str | None] = _nothing
    skips: Callable[[ModelSpec, Any], str | None] = _nothing
    open_exact: Open | None = None


def load(path: Path, name: str, build: Callable[[Path], Compute]) -> Session:
    """A session of the runtime `name` over what `build` makes of the file.

    Raises BundleError where it cannot.
    """
    try:
        compute = build(path)
    except Exception as error:  # of the runtime's own, of any kind
        raise BundleError(f"{name} cannot load {path}: {first_line(error)}") from error
    return Session(Computed(path, compute), "cpu", name)


class Computed:
    """An Engine over `compute`; values are ONNX Runtime's, and what stays is copied to."""

    def __init__(self, path: Path, compute: Compute):
        graph = onnx.load(path, load_external_data=False).graph
        self.inputs, self.outputs = ports(graph.input), ports(graph.output)
        self._compute = compute

    def run(self, feeds: Arrays) -> dict[str, np.ndarray]:
        """See Engine."""
        result = self._compute({name: np.ascontiguousarray(array) for name, array in feeds.items()})
        return {port.name: result[port.name] for port in self.outputs}

    def bind(
        self,
        inputs: Mapping[str, ort.OrtValue],
        outputs: Mapping[str, ort.OrtValue],
        wanted: Sequence[str],
        memory: str,
    ) -> Bound:
        """See Engine; everything is in the CPU's memory."""

        def run(feeds: Arrays) -> dict[str, ort.OrtValue]:
            result = self.run({name: value.numpy() for name, value in inputs.items()} | dict(feeds))
            for name, value in outputs.items():
                array = np.ascontiguousarray(result[name])
                if value.shape() != list(array.shape):
                    raise ValueError(f"output '{name}' is {array.shape}, expected {tuple(value.shape())}")
                value.update_inplace(array)
            return {name: _value(np.ascontiguousarray(result[name])) for name in wanted}

        return run


def _value(array: np.ndarray) -> ort.OrtValue:
    """A value with memory of its own: a view of it must not outlive an array that it borrows."""
    value = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype)
    value.update_inplace(array)
    return value
