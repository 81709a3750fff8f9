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
    """The components of one graph, compared run by run with what the twin's modules took and gave.

    Nothing is rounded but by nodes of the graph. Raises UnsupportedError for a graph without functions, in
    which no component can be told from another.
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
        """Values of the graph by name: each component's alone on the twin's numbers where `cut`."""
        expansion = self.alone if cut else self.together
        given = dict(feeds)
        for name, place in expansion.fed.items():
            value = truth(traced, place)
            if value is not None:
                given[name] = np.ascontiguousarray(value)
        if cut not in self._sessions:
            self._sessions[cut] = self._session(expansion, given)
        session = self._sessions[cut]
        taken = {port.name: given[port.name] for port in session.get_inputs()}
        names = [port.name for port in session.get_outputs()]
        return given | dict(zip(names, session.run(names, taken), strict=True))

    def _session(self, expansion: Expansion, given: Mapping[str, np.ndarray]) -> ort.InferenceSession:
        made = {name for node in expansion.nodes for name in node.output}
        wanted = dict.fromkeys(p.source for p in expansion.points if p.source in made)
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        graph = model.graph
        del graph.node[:], graph.output[:], graph.value_info[:]
        graph.node.extend(expansion.nodes)
        own = {value.name for value in graph.input}
        for name, array in given.items():
            if name not in own:
                kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
                shape = [f"{name}_{axis}" for axis in range(array.ndim)]
                graph.input.append(onnx.helper.make_tensor_value_info(name, kind, shape))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
        options = session_options(UNROUNDED)
        options.add_session_config_entry(FOLDER, str(self._file.parent))
        return ort.InferenceSession(model.SerializeToString(), options, providers=providers(self._device))


def truth(traced: Traced, place: Place) -> np.ndarray | None:
    """The twin's value at a place; None where its module has none."""
    calls = traced.calls.get(place.module, [])
    if place.call >= len(calls):
        return None
    seen = calls[place.call]
    values = seen.arguments if place.kind == "argument" else seen.outputs
    return values[place.index] if place.index < len(values) else None


def expected(traced: Traced, point: Point) -> np.ndarray | None:
    """What the twin has in place of a point's value."""
    return traced.outputs.get(point.name) if point.place is None else truth(traced, point.place)
