"""The plan of a bundle: its graphs, and the weights in each file, for export and for verify."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path

import onnx
import onnx_ir as ir
from txgraphs._branches import without_branches
from txgraphs._chosen_products import only_of_chosen
from txgraphs._few_buffers import with_few_buffers
from txgraphs._flat import flatten, tidied
from txgraphs._kernels import spell_missing
from txgraphs._nodes import Parameter
from txgraphs._parameters import check_balance, with_shared
from txgraphs._scans import with_plain_scans
from txgraphs._state_copies import with_copied_states
from txgraphs._turns import spell_turns
from txgraphs.model import models

from txexport.bundle.form import ExportOptions
from txexport.bundle.manifest import ATTENDS_IN_PLACE
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_resolution import stored_names
from txexport.contracts import (
    ECOSYSTEM,
    SHARED,
    Contract,
    for_cuda,
    names,
    of_cache,
    roles,
    with_outputs,
)
from txexport.exporter.parameter_formats import Uses, checkpoint_integers, formats_of, matching
from txexport.exporter.weight_file import WeightFile
from txexport.families import Resolved
from txexport.formats import (
    DEFAULT,
    DTYPES,
    CalibratedInt4,
    Dtype,
    Int4,
    Integers,
)
from txexport.parts import for_others, signatures
from txexport.spec import ModelSpec

LEAST_RUNTIME = "onnxruntime"  # key in a graph's metadata: the oldest ONNX Runtime that computes it correctly
# By opset, the first ONNX Runtime that computes native graphs of every dtype correctly.
RUNTIMES = {20: "1.18", 21: "1.19", 22: "1.22", 24: "1.24"}
KEY_LENGTHS = 6  # the index of `nonpad_kv_seqlen` among Attention's inputs
HUB_OPSET = 21  # the newest opset that every other client supports
version = cache(metadata.version)  # reads the integers of a weights file


@dataclass(frozen=True)
class PlannedGraph:
    """One graph of a bundle: its path, role, contract and dtype."""

    path: str
    role: str
    contract: Contract
    dtype: str


class BundlePlan:
    """The graphs and weights files of a checkpoint's bundle with these options, for every dtype.

    `native` graphs are for txexport's runtime, `hub` graphs for other clients. `data` are the weights files
    by path: each graph that clients open by itself has one, and the other graphs refer to these. `integers`
    reads the integers of calibrated matrices; if absent, scales from the search are used.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        resolved: Resolved,
        options: ExportOptions,
        integers: Integers | None = None,
    ):
        self.spec, self.options, self.integers = resolved.spec, options, integers
        self.model_type, self.translated = resolved.model_type, resolved.translated
        self.weights = with_shared(self.spec, resolved.weights)
        self.dtypes = {name: DtypePlan(checkpoint, self, options.dtype(name)) for name in options.dtypes}

    @property
    def native(self) -> list[PlannedGraph]:
        """Of all dtypes."""
        return [graph for one in self.dtypes.values() for graph in one.native]

    @property
    def hub(self) -> list[PlannedGraph]:
        """Of all dtypes."""
        return [graph for one in self.dtypes.values() for graph in one.hub]

    @property
    def data(self) -> dict[str, WeightFile]:
        """Of all dtypes."""
        return {path: file for one in self.dtypes.values() for path, file in one.data.items()}

    @property
    def graphs(self) -> list[PlannedGraph]:
        """Every graph."""
        return [graph for one in self.dtypes.values() for graph in one.graphs]

    @property
    def reads_tokens(self) -> bool:
        """True if a graph takes token ids."""
        ports = (signatures(self.spec, one.contract)[one.role] for one in self.graphs)
        return any(port.name == names.INPUT_IDS for signature in ports for port in signature.inputs)

    def models(self, folder: Path) -> Iterator[tuple[PlannedGraph, ir.Model]]:
        """Every graph, with weights in that folder, whose files need not exist yet.

        Equal versions of `versions()` give equal bytes.
        """
        for one in self.dtypes.values():
            for planned, model in one.models(folder):
                model.metadata_props[LEAST_RUNTIME] = least_runtime(model)
                yield planned, model


class DtypePlan:
    """The part of a plan for one dtype."""

    def __init__(self, checkpoint: Checkpoint, whole: BundlePlan, dtype: Dtype):
        self.spec, self.options, self.dtype = whole.spec, whole.options, dtype
        self.native: list[PlannedGraph] = []
        self.hub: list[PlannedGraph] = []
        if self.options.only != "hub":
            own = with_outputs(_own_contract(self.options), tuple(self.options.outputs))
            for role in signatures(self.spec, own):
                path = roles.native_path(role, own.cache, dtype.suffix)
                self.native.append(PlannedGraph(path, role, own, dtype.name))
        if self.options.only != "native":
            for role, contract in for_others(self.spec, self.options.client).items():
                path = roles.hub_path(role, self.options.client, dtype.suffix)
                if contract == ECOSYSTEM:  # the client of a shared buffer reads no other graph
                    contract = with_outputs(contract, tuple(self.options.outputs))
                self.hub.append(PlannedGraph(path, role, contract, dtype.name))
        asked = {graph.path: _uses(self.spec, graph.contract)[graph.role] for graph in self.graphs}
        read = set().union(*asked.values())
        check_balance(read | self._of_ours(), whole.weights.keys())
        self.weights = {name: weight for name, weight in whole.weights.items() if name in read}
        self.formats = formats_of(self.weights, asked.values(), dtype)
        if dtype.stored:
            own_integers = checkpoint_integers(checkpoint, self.weights, asked.values())
            widened = self.options.widened and not dtype.rounds_blocks
            self.formats |= {name: one.wide if widened else one for name, one in own_integers.items()}
        if whole.options.keep:
            wide = formats_of(self.weights, asked.values(), DTYPES[DEFAULT])
            self.formats |= {name: wide[name] for name in matching(self.weights, whole.options.keep)}
        self.calibrated = self._calibrated(whole.integers)
        self.data: dict[str, WeightFile] = {}
        for path, held in self._homes(asked).items():
            own_weights = {name: weight for name, weight in self.weights.items() if name in held}
            self.data[path] = WeightFile(path, checkpoint, own_weights, self.formats, self.calibrated)

    @property
    def graphs(self) -> list[PlannedGraph]:
        """Every graph."""
        return [*self.native, *self.hub]

    def _of_ours(self) -> set[str]:
        """The parameters that graphs for other clients alone leave out, as those that read a mask."""
        if self.options.only != "hub":
            return set()
        return set().union(*_uses(self.spec, of_cache(self.options.cache)).values())

    @property
    def int4(self) -> dict[str, tuple[str, Int4]]:
        """The 4-bit parameters: the name of the first equal matrix, and the format."""
        first = stored_names(self.weights)
        return {name: (first[name], one) for name, one in self.formats.items() if isinstance(one, Int4)}

    def _calibrated(self, integers: Integers | None) -> dict[str, CalibratedInt4]:
        """The formats with the bytes of calibrated parameters; graphs read them as other int4 parameters."""
        calibration = self.options.calibrated.get(self.dtype.name)
        if integers is None or calibration is None:
            return {}
        return {
            name: CalibratedInt4(one.block, partial(integers, self.dtype.name, first))
            for name, (first, one) in self.int4.items()
            if first not in calibration.searched
        }

    def _homes(self, asked: Mapping[str, Uses]) -> dict[str, set[str]]:
        """The parameters of each weights file."""
        paths = [graph.path for graph in self.hub if self._owns(graph)]
        if not paths:
            path = roles.data_path(roles.hub_path(roles.MODEL, dtype=self.dtype.suffix))
            return {path: set().union(*asked.values())}
        return {roles.data_path(path): set(asked[path]) for path in paths}

    def _owns(self, graph: PlannedGraph) -> bool:
        """Tell whether a client opens a graph by itself, so that its weights need a file of their own."""
        if self.options.single_file:
            return False
        separate = [roles.MODEL, roles.ENCODER, roles.DECODER_MERGED, roles.EMBED_TOKENS]
        if any(one.role == roles.EMBED_TOKENS for one in self.hub):
            separate += [roles.IMAGE_ENCODER, roles.AUDIO_ENCODER]
        return self.options.client not in (None, roles.GENAI) or graph.role in separate

    def models(self, folder: Path) -> Iterator[tuple[PlannedGraph, ir.Model]]:
        """See BundlePlan."""
        stored = {path: file.parameters(folder) for path, file in self.data.items()}
        everywhere = {name: one for parameters in stored.values() for name, one in parameters.items()}
        if self.native:
            yield from self._native(everywhere)
        if self.hub:
            yield from self._hub(
                {graph.role: stored.get(roles.data_path(graph.path), everywhere) for graph in self.hub}
            )

    def _native(self, stored: Mapping[str, Parameter]) -> Iterator[tuple[PlannedGraph, ir.Model]]:
        dtype = ir.DataType[self.dtype.computes]
        graphs = models(self.spec, self.native[0].contract, lambda role: stored, dtype)
        for planned in self.native:
            model = graphs[planned.role].model(version("txexport"), self.options.opset)
            if planned.contract.captured:
                model = spell_missing(model, dtype)
            yield planned, flatten(model, dtype) if self.options.inline else model

    def _hub(self, stored: Mapping[str, Mapping[str, Parameter]]) -> Iterator[tuple[PlannedGraph, ir.Model]]:
        """The graphs, each over its `stored` parameters."""

        ecosystem = with_outputs(ECOSYSTEM, tuple(self.options.outputs))

        def flat(
            own: Callable[[str], Mapping[str, Parameter]],
            contract: Contract = ecosystem,
            opset: int = min(self.options.opset, HUB_OPSET),
        ) -> dict[str, ir.Model]:
            graphs = models(self.spec, contract, own)
            finished = {role: graph.model(version("txexport"), opset) for role, graph in graphs.items()}
            if self.options.client == roles.WEB:  # which may compute on WebGPU
                spelled = {role: flatten(spell_turns(model)) for role, model in finished.items()}
                spelled = {role: only_of_chosen(model) for role, model in spelled.items()}
            else:
                spelled = {role: flatten(model) for role, model in finished.items()}
            few = {role: with_plain_scans(with_few_buffers(model)) for role, model in spelled.items()}
            return {role: with_copied_states(model) for role, model in few.items()}

        result = flat(lambda role: stored.get(role, {}))
        if roles.SHARED in stored:
            result |= flat(lambda role: stored[role], SHARED, self.options.opset)
        for planned in self.hub:
            model = result[planned.role]
            yield planned, tidied(without_branches(model) if self.options.client == roles.OPENVINO else model)


def _own_contract(options: ExportOptions) -> Contract:
    """The contract of the native graphs."""
    contract = of_cache(options.cache)
    return for_cuda(contract) if options.client == roles.CUDA else contract


def least_runtime(model: ir.Model) -> str:
    """The oldest ONNX Runtime that computes a graph correctly, such as "1.28"."""
    bodies: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for body in bodies:
        for node in body.all_nodes():
            if node.op_type == "Attention" and len(node.inputs) > KEY_LENGTHS:
                return ATTENDS_IN_PLACE
    return next(version for opset, version in RUNTIMES.items() if model.graph.opset_imports[""] <= opset)


def to_proto(model: ir.Model, single_file: bool = False) -> onnx.ModelProto:
    """A graph as written to its file, with the weights in a `single_file`; shapes are not repeated."""
    if single_file:
        ir.external_data.load_to_model(model)
    proto = ir.to_proto(model)
    del proto.graph.value_info[:]
    return proto


@cache
def _uses(spec: ModelSpec, contract: Contract) -> dict[str, Uses]:
    """The parameters that each graph reads, and their uses."""
    return {
        role: {name: frozenset(kinds) for name, kinds in graph.uses.items()}
        for role, graph in models(spec, contract, None).items()
    }
