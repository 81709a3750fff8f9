"""What export writes of a checkpoint, and verify expects: which graphs, and which weights in which file."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import onnx
import onnx_ir as ir
from txgraphs._flat import flatten, merged, tidied
from txgraphs._nodes import Parameter
from txgraphs.model import check_balance, models, with_shared

from txexport.bundle import Form
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_map import Weight
from txexport.contracts import ECOSYSTEM, Contract, names, of_cache, roles
from txexport.exporter.weight_file import WeightFile
from txexport.families import Resolved
from txexport.formats import FLOAT32, FLOAT32_IN_OUT, NumberFormat, Use
from txexport.spec import ModelSpec

HUB_OPSET = 21  # the newest that every other client takes
Uses = Mapping[str, AbstractSet[Use]]  # of parameters, by name


@dataclass(frozen=True)
class Planned:
    """One graph of a bundle: its place, what it is for, and by which contract."""

    path: str
    role: str
    contract: Contract


class BundlePlan:
    """The graphs and the weights files of a checkpoint's bundle in that form.

    `native` are graphs that our runtime runs, `hub` those for other clients, `data` the files of weights by
    place: each graph that clients open alone has its own, into which the others point.
    """

    def __init__(self, checkpoint: Checkpoint, resolved: Resolved, form: Form):
        self.spec, self.form = resolved.spec, form
        self.native: list[Planned] = []
        self.hub: list[Planned] = []
        if form.only != "hub":
            own = of_cache(form.cache)
            self.native = [
                Planned(roles.native_path(role, own.cache), role, own) for role in own.graphs(self.spec)
            ]
        if form.only != "native":
            self.hub = [
                Planned(roles.hub_path(role), role, ECOSYSTEM) for role in ECOSYSTEM.graphs(self.spec)
            ]
        weights = with_shared(self.spec, resolved.weights)
        asked = {graph.path: _uses(self.spec, graph.contract)[graph.role] for graph in self.graphs}
        check_balance(set().union(*asked.values()), weights.keys())
        formats = _formats(weights, asked.values())
        self.data = {
            path: WeightFile(
                path, checkpoint, {name: weights[name] for name in weights if name in held}, formats
            )
            for path, held in self._homes(asked).items()
        }

    @property
    def graphs(self) -> list[Planned]:
        """Every graph."""
        return [*self.native, *self.hub]

    @property
    def reads_tokens(self) -> bool:
        """Whether a graph takes token ids."""
        signatures = (one.contract.graphs(self.spec)[one.role] for one in self.graphs)
        return any(port.name == names.INPUT_IDS for signature in signatures for port in signature.inputs)

    def _homes(self, asked: Mapping[str, Uses]) -> dict[str, set[str]]:
        """The parameters of each weights file."""
        hub = {graph.role: asked[graph.path].keys() for graph in self.hub}
        if self.form.single_file or roles.DECODER_MERGED not in hub:
            return {roles.data_path(roles.MODEL): set().union(*asked.values())}
        return {roles.data_path(role): set(hub[role]) for role in (roles.ENCODER, roles.DECODER_MERGED)}

    def models(self, folder: Path) -> Iterator[tuple[Planned, ir.Model]]:
        """Every graph over the weights of that folder, which need not be there yet.

        Equal versions of `versions()` give equal bytes.
        """
        stored = [file.parameters(folder) for file in self.data.values()]
        if self.native:
            yield from self._native({**stored[-1], **stored[0]})
        if self.hub:
            yield from self._hub(stored[0], stored[-1])

    def _native(self, stored: Mapping[str, Parameter]) -> Iterator[tuple[Planned, ir.Model]]:
        graphs = models(self.spec, self.native[0].contract, stored)
        for planned in self.native:
            model = graphs[planned.role].model(version("txexport"), self.form.opset)
            yield planned, flatten(model) if self.form.inline else model

    def _hub(
        self, encoder: Mapping[str, Parameter], rest: Mapping[str, Parameter]
    ) -> Iterator[tuple[Planned, ir.Model]]:
        """The graphs over an encoder's weights and those of all else, which may be the same."""
        opset = min(self.form.opset, HUB_OPSET)

        def flat() -> dict[str, ir.Model]:
            graphs = models(self.spec, ECOSYSTEM, rest)
            if roles.ENCODER in graphs:
                graphs[roles.ENCODER] = models(self.spec, ECOSYSTEM, encoder)[roles.ENCODER]
            return {role: flatten(graph.model(version("txexport"), opset)) for role, graph in graphs.items()}

        result = flat()
        signatures = ECOSYSTEM.graphs(self.spec)
        if roles.DECODER_MERGED in signatures:
            parts = flat()
            result[roles.DECODER_MERGED] = merged(
                parts[roles.DECODER], parts[roles.DECODER_WITH_PAST], signatures[roles.DECODER_MERGED]
            )
        for planned in self.hub:
            yield planned, tidied(result[planned.role])


def to_proto(model: ir.Model, single_file: bool = False) -> onnx.ModelProto:
    """A graph as it lies in its file, with the weights in a `single_file`; their shapes are said once."""
    if single_file:
        ir.external_data.load_to_model(model)
    proto = ir.to_proto(model)
    del proto.graph.value_info[:]
    return proto


@cache
def _uses(spec: ModelSpec, contract: Contract) -> dict[str, Uses]:
    """What each graph asks for, and for what."""
    uses: dict[str, Uses] = {
        role: {name: frozenset(kinds) for name, kinds in graph.uses.items()}
        for role, graph in models(spec, contract, {}).items()
    }
    if roles.DECODER_WITH_PAST in uses:
        uses[roles.DECODER_MERGED] = {**uses[roles.DECODER_WITH_PAST], **uses[roles.DECODER]}
    return uses


def _formats(weights: Mapping[str, Weight], asked: Iterable[Uses]) -> dict[str, NumberFormat]:
    """How each parameter is stored: one that is only multiplied with as a product expects it.

    Equal numbers lie once, so they are stored alike.
    """
    kinds: dict[str, set[Use]] = {name: set() for name in weights}
    for uses in asked:
        for name, use in uses.items():
            kinds[name] |= use
    whole = {
        weight.key
        for name, weight in weights.items()
        if kinds[name] != {Use.PRODUCT} or len(weight.shape) != 2
    }
    return {name: FLOAT32 if weight.key in whole else FLOAT32_IN_OUT for name, weight in weights.items()}
