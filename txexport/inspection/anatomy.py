"""A model's parts in the order of computation, each with its parameters, operations and cache."""

import math
from collections.abc import Container
from dataclasses import dataclass

from txexport.inspection import flops
from txexport.inspection.attention_operations import cached, cross_cached
from txexport.inspection.parameter_count import learned
from txexport.inspection.summary import convolution, feed_forward, heads
from txexport.parts import architecture_of, input_of
from txexport.parts.stacks import merged_vectors, query_layers
from txexport.spec import AttentionSpec, BlockSpec, ModelSpec, NormPlacement, SourceAttentionSpec
from txexport.spec.lengths import adapter_of, squeeze_of


@dataclass(frozen=True)
class CostPart:
    """A sublayer in all layers of its group together, or a component before or after the layers.

    `operations` are those of the stack's pass, `cache` its bytes of keys and values.
    """

    name: str
    note: str
    parameters: int
    operations: int
    cache: int


@dataclass(frozen=True)
class LayerGroup:
    """Equal layers, by their numbers; `norms` are the norms of all of them."""

    numbers: list[int]
    placement: NormPlacement
    skip_attention_norm: bool
    layer_scale: bool
    residual_scale: float
    sublayers: list[CostPart]
    norms: CostPart


@dataclass(frozen=True)
class StackParts:
    """One stack: its embedding, its layers, and the components after them.

    `work` names the pass that takes `operations` in all.
    """

    name: str
    work: str
    operations: int
    before: CostPart
    groups: list[LayerGroup]
    behind: list[CostPart]


def anatomy(
    spec: ModelSpec, stored: Container[str], length: int, batch: int, number: int = flops.NUMBER
) -> list[StackParts]:
    """Every stack of a model; `stored` names the parameters that are no copy of another.

    All parts together have the parameters, operations and cache of `parameter_count` and `flops`, `number` as
    there.
    """
    return [_Stack(spec, name, stored, length, batch, number).parts() for name in spec.stacks]


OF_QUERIES = {
    "layers": ["cell_scale", "layers_norm", "pyramid", "levels", "maps", "level_embed"],
    "query_layers": [
        "proposals",
        "queries",
        "query_position",
        "query_scale",
        "query_sides",
        "query_norm",
        "boxes",
        "edges",
        "first_box",
    ],
}  # beside layers


BEFORE = ("embedding", "layer_inputs", "layout", "expand", "relative", "squeeze", "layer_positions")
WITHOUT_CACHE = ("augmented_residual", "feed_forward", "adapter", "layer_input", "streams", "project")


class _Stack:
    """The data that the parts of one stack are made from."""

    def __init__(
        self, spec: ModelSpec, name: str, stored: Container[str], length: int, batch: int, number: int
    ):
        self.spec, self.name, self.length, self.batch, self.number = spec, name, length, batch, number
        self.stack = spec.stacks[name]
        self.sizes = learned(spec, stored)
        self.operations = flops.by_part(spec, name, length, batch)

    def parts(self) -> StackParts:
        """The stack and all its parts."""
        read = flops.prefill(self.spec, self.length, self.batch).get(self.name)
        work = f"next token after {self.length:,}" if read is None else f"reading {read.tokens:,} tokens"
        owners = [f"{self.name}.{part}" for part in BEFORE]
        before = self._part("embedding", owners, ", ".join(input_of(self.stack).summary(self.stack)))
        blocks: dict[BlockSpec, list[int]] = {}
        for number, block in enumerate(self.stack.layers):
            blocks.setdefault(block, []).append(number)
        groups = [self._group(block, numbers) for block, numbers in blocks.items()]
        return StackParts(self.name, work, sum(self.operations.values()), before, groups, self._behind())

    def _under(self, owner: str) -> list[str]:
        return [name for name in self.sizes if name.startswith(f"{owner}.")]

    def _part(self, name: str, owners: list[str], note: str = "", cache: int = 0) -> CostPart:
        size = sum(self.sizes[one] for owner in owners for one in self._under(owner))
        return CostPart(name, note, size, sum(self.operations.get(owner, 0) for owner in owners), cache)

    def _group(self, block: BlockSpec, numbers: list[int]) -> LayerGroup:
        owners = [f"{self.name}.layers.{number}" for number in numbers]
        sublayers = []
        for name in block.sublayers:
            sublayer_owners = [f"{owner}.{name}" for owner in owners]
            cache = self._cache(block, name) * len(numbers)
            sublayers.append(self._part(name, sublayer_owners, _note(block, name), cache))
        every = sum(self.sizes[one] for owner in owners for one in self._under(owner))
        norms = CostPart("norms", block.norm.kind, every - sum(part.parameters for part in sublayers), 0, 0)
        switches = block.skip_attention_norm, block.layer_scale, block.residual_scale
        return LayerGroup(numbers, block.placement, *switches, sublayers, norms)

    def _cache(self, block: BlockSpec, name: str) -> int:
        """Bytes of keys and values, or of states, that one layer keeps."""
        decoding = flops.decoding_of(self.spec)
        if decoding is None or self.name != decoding.decoder or name in WITHOUT_CACHE:
            return 0
        if isinstance(block.attention, SourceAttentionSpec):
            return self.number * cross_cached(block) * block.attention.vectors * self.batch
        if name == "beside" or not block.has_keys:
            return flops.NUMBER * sum(map(math.prod, block.states.values())) * self.batch
        kind = getattr(block, name)
        cross = name == "cross_attention"
        size = flops.source_tokens(self.spec, decoding, self.length) if cross else self.length
        return self.number * cached(kind) * size * self.batch

    def _behind(self) -> list[CostPart]:
        parts = [self._part(merging, [f"{self.name}.{merging}"]) for merging in merged_vectors(self.stack)]
        for name, (layers, *_) in query_layers(self.stack).items():
            note = f"{layers.num_layers} layers, {layers.num_heads} heads"
            owners = [f"{self.name}.{owner}" for owner in (name, *OF_QUERIES[name])]
            parts.append(self._part(name, owners, note))
        for norms in ("norms", "map_norms", "middle_norm", "after"):
            if any(name.startswith(f"{self.name}.{norms}.") for name in self.sizes):
                parts.append(self._part(norms, [f"{self.name}.{norms}"]))
        if any(name.startswith(f"{self.name}.merge.") for name in self.sizes):
            parts.append(self._part("merge", [f"{self.name}.merge"], "one vector of each token"))
        if self.stack.final_norm is not None:
            parts.append(self._part("final_norm", [f"{self.name}.final_norm"], self.stack.final_norm.kind))
        if (squeeze := squeeze_of(self.stack)) is not None:
            note = f"{squeeze.factor} vectors of each"
            parts.append(self._part("upsampling", [f"{self.name}.upsampling"], note))
        if (adapter := adapter_of(self.stack)) is not None:
            note = f"{adapter.num_layers} convolutions, each with a stride of {adapter.stride}"
            parts.append(self._part("length_adapter", [f"{self.name}.length_adapter"], note))
        for readout in architecture_of(self.spec).readouts(self.spec, self.name):
            part = self._part(readout.owner, [readout.owner], readout.note)
            if part.parameters or part.operations:
                parts.append(part)
        return parts


def _note(block: BlockSpec, name: str) -> str:
    if name == "convolution":
        assert block.convolution is not None
        return convolution(block.convolution)
    if name in ("feed_forward", "last_feed_forward"):
        assert block.feed_forward is not None
        return feed_forward(block.feed_forward)
    if name == "adapter":
        assert block.adapter is not None
        return feed_forward(block.adapter.feed_forward)
    if name == "layer_input":
        assert block.layer_input is not None
        return f"{block.layer_input.size:,} numbers of the layer's own ({block.layer_input.activation})"
    if name == "augmented_residual":
        assert block.augmented_residual is not None
        return f"a residual by way of {block.augmented_residual.rank:,} numbers"
    if name == "streams":
        assert block.streams is not None
        return f"{block.streams.count} vectors of each token"
    if name == "layout":
        assert block.layout is not None
        return f"{block.layout.hidden_size:,} numbers for each box, {heads(block.layout.attention)}"
    if name == "cross_attention":
        assert block.cross_attention is not None
        source = "encoder" if block.attention.causal else "image"
        return f"to the {source}, {heads(block.cross_attention)}"
    if name == "project":
        return "added to the input of the last sublayer"
    if name == "beside":
        assert block.beside is not None
        return heads(block.beside)
    window = block.attention.window
    chunked = isinstance(block.attention, AttentionSpec) and block.attention.chunked
    causal = "causal, " * block.attention.causal
    near = "" if window is None else f", {'chunks' if chunked else 'window'} of {window:,}"
    return f"{causal}{heads(block.attention)}{near}"
