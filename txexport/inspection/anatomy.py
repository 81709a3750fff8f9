"""A model's parts in the order of computing, each with its parameters, operations and cache."""

from collections.abc import Container
from dataclasses import dataclass

from txexport.inspection import flops
from txexport.inspection.parameter_count import learned
from txexport.inspection.summary import feed_forward, heads, inputs
from txexport.spec import BlockSpec, DualEncoderSpec, HeadKind, ModelSpec, NormPlacement

SUBLAYERS = ("attention", "cross_attention", "feed_forward")


@dataclass(frozen=True)
class Part:
    """A sublayer, or what stands before or behind the layers, in all layers of its group together.

    `operations` are those of the stack's pass, `cache` the bytes that are kept for it.
    """

    name: str
    note: str
    parameters: int
    operations: int
    cache: int


@dataclass(frozen=True)
class LayerGroup:
    """Layers that are built alike, by their numbers; `norms` are of them all."""

    numbers: list[int]
    placement: NormPlacement
    skip_attention_norm: bool
    layer_scale: bool
    residual_scale: float
    sublayers: list[Part]
    norms: Part


@dataclass(frozen=True)
class StackParts:
    """One stack: what comes in, its layers, what stands behind them.

    `work` says of which pass the operations are, which are `operations` in all.
    """

    name: str
    work: str
    operations: int
    before: Part
    groups: list[LayerGroup]
    behind: list[Part]


def anatomy(spec: ModelSpec, stored: Container[str], length: int, batch: int) -> list[StackParts]:
    """Every stack of a model, of whose parameters `stored` names those that are no copy of another.

    All parts together have the parameters, operations and cache that `parameter_count` and `flops` tell.
    """
    return [_Stack(spec, name, stored, length, batch).parts() for name in spec.stacks]


class _Stack:
    """What the parts of one stack are made of."""

    def __init__(self, spec: ModelSpec, name: str, stored: Container[str], length: int, batch: int):
        self.spec, self.name, self.length, self.batch = spec, name, length, batch
        self.stack = spec.stacks[name]
        self.sizes = learned(spec, stored)
        self.operations = flops.by_part(spec, name, length, batch)

    def parts(self) -> StackParts:
        """The whole of it."""
        read = flops.prefill(self.spec, self.length, self.batch).get(self.name)
        work = f"next token after {self.length:,}" if read is None else f"reading {read.tokens:,} tokens"
        before = self._part(
            "embedding", [f"{self.name}.embedding", f"{self.name}.relative"], ", ".join(inputs(self.stack))
        )
        blocks: dict[BlockSpec, list[int]] = {}
        for number, block in enumerate(self.stack.layers):
            blocks.setdefault(block, []).append(number)
        groups = [self._group(block, numbers) for block, numbers in blocks.items()]
        return StackParts(self.name, work, sum(self.operations.values()), before, groups, self._behind())

    def _under(self, owner: str) -> list[str]:
        return [name for name in self.sizes if name.startswith(f"{owner}.")]

    def _part(self, name: str, owners: list[str], note: str = "", cache: int = 0) -> Part:
        size = sum(self.sizes[one] for owner in owners for one in self._under(owner))
        return Part(name, note, size, sum(self.operations.get(owner, 0) for owner in owners), cache)

    def _group(self, block: BlockSpec, numbers: list[int]) -> LayerGroup:
        owners = [f"{self.name}.layers.{number}" for number in numbers]
        sublayers = []
        for name in SUBLAYERS:
            if getattr(block, name) is not None:
                own = [f"{owner}.{name}" for owner in owners]
                sublayers.append(
                    self._part(name, own, _note(block, name), self._cache(block, name) * len(numbers))
                )
        every = sum(self.sizes[one] for owner in owners for one in self._under(owner))
        norms = Part("norms", block.norm.kind, every - sum(part.parameters for part in sublayers), 0, 0)
        switches = block.skip_attention_norm, block.layer_scale, block.residual_scale
        return LayerGroup(numbers, block.placement, *switches, sublayers, norms)

    def _cache(self, block: BlockSpec, name: str) -> int:
        """Bytes of keys and values that one layer keeps."""
        if flops.cache(self.spec, self.length, self.batch) is None or self.name != "decoder":
            return 0
        kind = getattr(block, name)
        if name == "feed_forward":
            return 0
        size = self.length
        if name == "cross_attention":
            size = flops.tokens(self.spec.stacks["encoder"], self.length)
        return flops.NUMBER * flops.cached(kind) * size * self.batch

    def _behind(self) -> list[Part]:
        parts = []
        if self.stack.final_norm is not None:
            parts.append(self._part("final_norm", [f"{self.name}.final_norm"], self.stack.final_norm.kind))
        owners = [f"{self.name}_projection"]
        if isinstance(self.spec, DualEncoderSpec):
            owners += [f"{self.name}_pool"]
            owners += ["similarity"] * (self.name == list(self.spec.stacks)[-1])
        else:
            owners = [*flops.CROSS] * (self.name == "encoder")
            owners += ["layer_sum", *flops.ONCE, "head"] * (self.spec.stack is self.stack)
        for owner in owners:
            part = self._part(owner, [owner], self._said(owner))
            if part.parameters or part.operations:
                parts.append(part)
        return parts

    def _said(self, owner: str) -> str:
        """What a head gives."""
        spec = self.spec
        if isinstance(spec, DualEncoderSpec):
            return f"{spec.size:,} numbers" if owner != "similarity" else "of texts and images"
        if owner == "cross":
            return "of the encoder, for the decoder"
        if owner != "head":
            return ""
        kind = (
            ""
            if spec.head.kind == HeadKind.NONE
            else str(spec.head.kind).replace("_", " ").replace(" lm", " LM")
        )
        tied = ", tied to the words" * (spec.head.tied and kind != "")
        return f"{kind}, {spec.head.labels or spec.vocab_size:,} scores{tied}"


def _note(block: BlockSpec, name: str) -> str:
    if name == "feed_forward":
        return feed_forward(block.feed_forward)
    if name == "cross_attention":
        assert block.cross_attention is not None
        return f"to the encoder, {heads(block.cross_attention)}"
    window = block.attention.window
    causal = "causal, " * block.attention.causal
    return f"{causal}{heads(block.attention)}" + (f", window of {window:,}" if window is not None else "")
