"""A graph's components in ONNX Runtime, each alone or all together, with their values as outputs."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from torch import nn

from txexport.bundle.manifest import UNROUNDED
from txexport.errors import UnsupportedError
from txexport.runtime.engines.onnxruntime import providers, session_options
from txexport.verification.layers.expand import Expansion, Place, Point, unmatched
from txexport.verification.layers.trace import Traced

FOLDER = "session.model_external_initializers_file_folder_path"


class Components:
    """The components of one graph, compared run by run with the values of the twin's modules.

    Only nodes of the graph quantise. Raises UnsupportedError for a graph without functions, whose components
    cannot be told apart.
    """

    def __init__(self, file: Path, modules: Mapping[str, nn.Module], device: str):
        model = onnx.load(file, load_external_data=False)
        if not model.functions:
            raise UnsupportedError(
                f"{file.name} is flat, so its components cannot be told apart; export without --inline"
            )
        self.alone, self.together = (Expansion(model, modules, cut) for cut in (True, False))
        parts = {name.split(".")[0] for name in self.alone.matched}
        missing = unmatched([n for n in modules if n.split(".")[0] in parts], self.alone.matched)
        if missing:
            raise UnsupportedError(f"{file.name} has no function call for {', '.join(missing[:3])}")
        self._model, self._file, self._device = model, file, device
        self._sessions: dict[bool, ort.InferenceSession] = {}

    def run(self, feeds: Mapping[str, np.ndarray], traced: Traced, cut: bool) -> dict[str, np.ndarray]:
        """Values of the graph by name; if `cut`, each component runs alone on the twin's numbers."""
        expansion = self.alone if cut else self.together
        values = dict(feeds)
        for name, place in expansion.fed.items():
            value = truth(traced, place)
            if value is not None:
                value = np.ascontiguousarray(value)
                values[name] = value.astype(np.float32) if value.dtype == np.float64 else value
        if cut not in self._sessions:
            self._sessions[cut] = self._session(expansion, values)
        session = self._sessions[cut]
        inputs = {port.name: values[port.name] for port in session.get_inputs()}
        names = [port.name for port in session.get_outputs()]
        return values | dict(zip(names, session.run(names, inputs), strict=True))

    def _session(self, expansion: Expansion, values: Mapping[str, np.ndarray]) -> ort.InferenceSession:
        computed = {name for node in expansion.nodes for name in node.output}
        outputs = dict.fromkeys(p.source for p in expansion.points if p.source in computed)
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        graph = model.graph
        del graph.node[:], graph.output[:], graph.value_info[:]
        graph.node.extend(expansion.nodes)
        declared = {value.name for value in graph.input}
        for name, array in values.items():
            if name not in declared:
                kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
                shape = [f"{name}_{axis}" for axis in range(array.ndim)]
                graph.input.append(onnx.helper.make_tensor_value_info(name, kind, shape))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        options = session_options(UNROUNDED)
        options.add_session_config_entry(FOLDER, str(self._file.parent))
        return ort.InferenceSession(model.SerializeToString(), options, providers=providers(self._device))


def truth(traced: Traced, place: Place) -> np.ndarray | None:
    """The twin's value at a place; None if its module has none."""
    calls = traced.calls.get(place.module, [])
    if place.call >= len(calls):
        return None
    call = calls[place.call]
    values = call.arguments if place.kind == "argument" else call.outputs
    return values[place.index] if place.index < len(values) else None


def expected(traced: Traced, point: Point) -> np.ndarray | None:
    """The twin's value for a point."""
    return traced.outputs.get(point.name) if point.place is None else truth(traced, point.place)
