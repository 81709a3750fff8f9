"""What verify knows of a runtime, and a session over any that computes outputs from inputs."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from txexport.bundle import Manifest, Port
from txexport.errors import BundleError, first_line
from txexport.runtime.session import Session
from txexport.spec import ModelSpec

Files = Mapping[str, Path]  # graphs by role
Arrays = Mapping[str, np.ndarray]
Compute = Callable[[Arrays], Arrays]


def _nothing(*_: object) -> None:
    return None


@dataclass(frozen=True)
class Runtime:
    """A runtime by the name that verify takes.

    `open` gives, for files and a wanted device, the device and a session a file, until its context ends; it
    raises BundleError for a graph that cannot be loaded. Of the others each says why not, or None: `missing`
    where the runtime is not installed, `refuses` of a bundle that it cannot take in this form, `skips` of a
    case that would take it too long. `versions` are those of what was installed for it, `cuda`
    whether it can run there.
    """

    name: str
    open: Callable[[Files, str | None], AbstractContextManager[tuple[str, dict[str, Session]]]]
    cuda: bool = False
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
    return Session(Inference(path, compute), "cpu", name)


@dataclass(frozen=True)
class Argument:
    """An input or output as ONNX Runtime tells of it, with a type as "tensor(float)"."""

    name: str
    type: str
    shape: list[int | str]


def ports(values: Iterable[onnx.ValueInfoProto]) -> list[Port]:
    """Inputs or outputs of a graph, as a manifest lists them."""
    found = []
    for value in values:
        tensor = value.type.tensor_type
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
        found.append(Port(value.name, kind, [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]))
    return found


def _arguments(values: Iterable[onnx.ValueInfoProto]) -> list[Argument]:
    return [Argument(port.name, f"tensor({port.dtype})", port.shape) for port in ports(values)]


class Inference:
    """What Session and the caches call of ONNX Runtime's session, over `compute`.

    Values are ONNX Runtime's; what is bound as an output is copied there.
    """

    def __init__(self, path: Path, compute: Compute):
        graph = onnx.load(path, load_external_data=False).graph
        self._inputs, self._outputs = _arguments(graph.input), _arguments(graph.output)
        self._compute = compute

    def get_inputs(self) -> list[Argument]:
        """The graph's inputs."""
        return self._inputs

    def get_outputs(self) -> list[Argument]:
        """The graph's outputs."""
        return self._outputs

    def run(self, wanted: None, feeds: Arrays) -> list[np.ndarray]:
        """Every output, in the order of the graph."""
        found = self._compute({name: np.ascontiguousarray(array) for name, array in feeds.items()})
        return [found[port.name] for port in self._outputs]

    def io_binding(self) -> "Binding":
        """A place for inputs and outputs."""
        return Binding()

    def run_with_iobinding(self, binding: "Binding") -> None:
        """Run on what is bound."""
        outputs = self.run(None, {name: given.numpy() for name, given in binding.inputs.items()})
        found = {port.name: array for port, array in zip(self._outputs, outputs, strict=True)}
        for name, value in binding.outputs.items():
            array = np.ascontiguousarray(found[name])
            if value is None:
                # Of its own memory: a view of the value must not outlive an array that it borrows.
                value = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype)
                value.update_inplace(array)
                binding.made[name] = value
            elif value.shape() != list(array.shape):
                raise ValueError(f"output '{name}' is {array.shape}, expected {tuple(value.shape())}")
            else:
                value.update_inplace(array)


class Binding:
    """Inputs, and outputs by name in the order bound, with the value to copy to where there is one."""

    def __init__(self) -> None:
        self.inputs: dict[str, ort.OrtValue] = {}
        self.outputs: dict[str, ort.OrtValue | None] = {}
        self.made: dict[str, ort.OrtValue] = {}

    def bind_ortvalue_input(self, name: str, value: ort.OrtValue) -> None:
        """Read an input from a value, as it is when run."""
        self.inputs[name] = value

    def bind_cpu_input(self, name: str, array: np.ndarray) -> None:
        """Read an input from an array."""
        self.inputs[name] = ort.OrtValue.ortvalue_from_numpy(array)

    def bind_ortvalue_output(self, name: str, value: ort.OrtValue) -> None:
        """Copy an output to a value."""
        self.outputs[name] = value

    def bind_output(self, name: str, device: str) -> None:
        """Make a new value of an output."""
        self.outputs[name] = None

    def get_outputs(self) -> list[ort.OrtValue]:
        """The outputs in the order bound."""
        return [self.made[name] if value is None else value for name, value in self.outputs.items()]
