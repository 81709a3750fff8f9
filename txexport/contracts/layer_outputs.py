"""Outputs beside those of a task: hidden states and attention weights of every layer, where asked for.

Their names and shapes are those of `output_hidden_states` and `output_attentions` in transformers. A static
cache has its whole capacity for keys, of which unfilled slots have weight 0, as padding and what is hidden.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Generic, TypeVar

from txexport.contracts import cache_names, names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats
from txexport.contracts.one_pass import TOKENS, Shape, hidden_shape
from txexport.errors import UnsupportedError
from txexport.spec import (
    DecoderSpec,
    DualEncoderSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    HeadKind,
    MaskedAttentionSpec,
    ModelSpec,
    PatchSpec,
    PositionedAttentionSpec,
    RoundedAlibiSpec,
    SpectrogramSpec,
    StackSpec,
    TextStackSpec,
)

OUTPUTS = (names.ATTENTIONS, names.HIDDEN_STATES)
Value = TypeVar("Value")


@dataclass
class LayerOutputs(Generic[Value]):
    """What the layers of a stack give of the outputs `asked` for: `values` by name, of whatever computes.

    `stack` is the name of one of two. `before_norm` is whether the last hidden state is without the stack's
    final norm, as transformers gives it of patches and of CLIP. `states` by layer are kept where they are
    summed.
    """

    asked: Collection[str] = ()
    stack: str | None = None
    before_norm: bool = False
    states: dict[str, Value] | None = None
    values: dict[str, Value] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def weighted(self) -> bool:
        """Whether layers are to give their weights."""
        return names.ATTENTIONS in self.asked

    def hidden(self, x: Value) -> None:
        """The next layer reads x (B,S,W), or the last one gave it."""
        if self.states is not None:
            self.states[str(len(self.states))] = x
        if names.HIDDEN_STATES in self.asked:
            self._add(names.HIDDEN_STATES, self.stack, x)

    def weights(self, own: Value | None = None, cross: Value | None = None) -> None:
        """The next layer weighs with `own` (B,N,S,T), and an encoder's tokens with `cross` (B,N,S,E)."""
        if own is not None and self.weighted:
            self._add(names.ATTENTIONS, self.stack, own)
        if cross is not None and self.weighted:
            self._add(names.CROSS_ATTENTIONS, None, cross)

    def last(self, x: Value, normed: Value) -> None:
        """The last layer gave x (B,S,W), and the final norm `normed`."""
        self.hidden(x if self.before_norm else normed)

    def _add(self, kind: str, stack: str | None, value: Value) -> None:
        layer = self._counts.get(kind, 0)
        self._counts[kind] = layer + 1
        self.values[names.of_layer(kind, layer, stack)] = value


def kind_of(name: str) -> str | None:
    """That of OUTPUTS which an output is of a layer's, None for one that is of no layer."""
    kind, _, layer = name.rpartition(".")
    return next((known for known in OUTPUTS if kind.endswith(known) and layer.isdecimal()), None)


def kinds(ports: Collection[Port]) -> frozenset[str]:
    """The outputs of every layer that are among a graph's."""
    return frozenset(kind for port in ports if (kind := kind_of(port.name)) is not None)


def last_before_norm(spec: ModelSpec, stack: StackSpec) -> bool:
    """Whether a stack's last hidden state is without its final norm: see LayerOutputs."""
    tower = isinstance(spec, EncoderSpec) and spec.vector is not None
    patches = isinstance(stack.embedding, PatchSpec | SpectrogramSpec)
    return tower or isinstance(spec, DualEncoderSpec) or patches


def sums_layers(spec: ModelSpec) -> bool:
    """Whether a head reads the hidden states of all layers."""
    return isinstance(spec, EncoderSpec) and spec.layer_sum


def check_outputs(spec: ModelSpec, outputs: Collection[str]) -> None:
    """Raise UnsupportedError where a model's layers have not what `outputs` are."""
    if outputs and isinstance(spec, EncoderSpec | EncoderDecoderSpec) and spec.head.kind == HeadKind.CHOICES:
        raise UnsupportedError(
            "outputs of every layer are not there for multiple-choice, whose choices are rows of their own; "
            "leave them out, or export with another --task"
        )
    if names.HIDDEN_STATES in outputs and isinstance(spec, DecoderSpec) and spec.head.factored_size:
        raise UnsupportedError(
            f"outputs {names.HIDDEN_STATES}: the last one is {spec.head.factored_size} numbers wide in the "
            f"original, and the others {spec.stack.hidden_size}; ask for {names.ATTENTIONS} alone"
        )
    for name, stack in spec.stacks.items() if names.ATTENTIONS in outputs else ():
        if isinstance(stack, TextStackSpec) and isinstance(stack.relative, RoundedAlibiSpec):
            raise UnsupportedError(
                f"outputs {names.ATTENTIONS}: the original adds its rounded biases twice where it gives "
                f"weights, and the {name} weighs otherwise; ask for {names.HIDDEN_STATES} alone"
            )
        for block in stack.blocks:
            if not isinstance(block.attention, MaskedAttentionSpec | PositionedAttentionSpec):
                kind = type(block.attention).__name__.removesuffix("AttentionSpec").lower()
                raise UnsupportedError(
                    f"outputs {names.ATTENTIONS}: the {name} has {kind} attention, which has no weight of "
                    f"every token for every other; ask for {names.HIDDEN_STATES} alone"
                )


@cache
def with_outputs(contract: Contract, outputs: tuple[str, ...]) -> Contract:
    """The contract, whose graphs give `outputs` too, last; itself where there are none.

    Its graphs raise UnsupportedError as `check_outputs`.
    """
    if not outputs:
        return contract

    def graphs(spec: ModelSpec) -> dict[str, Signature]:
        check_outputs(spec, outputs)
        return {
            role: replace(signature, outputs=(*signature.outputs, *_ports(spec, role, signature, outputs)))
            for role, signature in contract.graphs(spec).items()
        }

    return replace(contract, graphs=graphs, outputs=outputs)


def _ports(spec: ModelSpec, role: str, signature: Signature, outputs: tuple[str, ...]) -> list[Port]:
    """What the graph of a role gives too."""
    if role == roles.SIMILARITY:
        return []
    if isinstance(spec, DualEncoderSpec):
        return _towers(spec, role, outputs)
    encoder, decoder = (spec.stacks.get(name) for name in (names.ENCODER, names.DECODER))
    both = isinstance(spec, EncoderDecoderSpec)
    apart = isinstance(spec, EncoderDecoderSpec) and spec.generates
    tokens: Shape = (names.BATCH_SIZE, names.ENCODER_SEQUENCE_LENGTH) if apart else TOKENS
    ports: list[Port] = []
    if encoder is not None and role in (roles.MODEL, roles.ENCODER):
        shape = hidden_shape(encoder, tokens)
        ports += _stack(encoder, names.ENCODER if both else None, outputs, shape, shape[1])
    if decoder is not None and role != roles.ENCODER:
        source = None if encoder is None else hidden_shape(encoder, tokens)[1]
        own = [port for port in signature.outputs if cache_names.is_present(port.name)]
        keys = next((port.shape[2] for port in own if not cache_names.is_cross(port.name)), TOKENS[1])
        ports += _stack(decoder, names.DECODER if both else None, outputs, TOKENS, keys, source)
    return ports


def _towers(spec: DualEncoderSpec, role: str, outputs: tuple[str, ...]) -> list[Port]:
    """Of texts, of images, or of both in one graph."""
    whole = role == roles.MODEL
    ports: list[Port] = []
    towers = (
        (roles.TEXT, names.TEXT, names.TEXT_BATCH_SIZE),
        (roles.VISION, names.VISION, names.IMAGE_BATCH_SIZE),
    )
    for own, name, rows in towers:
        if whole or role == own:
            stack = spec.stacks[name]
            batch = rows if whole else names.BATCH_SIZE
            shape = batch, hidden_shape(stack, TOKENS)[1]
            ports += _stack(stack, name, outputs, shape, shape[1])
    return ports


def _stack(
    stack: StackSpec,
    name: str | None,
    outputs: tuple[str, ...],
    shape: Shape,
    keys: int | str,
    source: int | str | None = None,
) -> list[Port]:
    """Hidden states in `shape` (B,S), and weights of so many keys, and of a `source` where there is one."""
    ports: list[Port] = []
    if names.HIDDEN_STATES in outputs:
        for layer in range(stack.num_layers + 1):
            ports.append(floats(names.of_layer(names.HIDDEN_STATES, layer, name), *shape, stack.hidden_size))
    if names.ATTENTIONS not in outputs:
        return ports
    for layer, block in enumerate(stack.layers):
        heads = shape[0], block.attention.num_heads, shape[1]
        ports.append(floats(names.of_layer(names.ATTENTIONS, layer, name), *heads, keys))
    for layer, block in enumerate(stack.layers):
        if block.cross_attention is not None and source is not None:
            heads = shape[0], block.cross_attention.num_heads, shape[1]
            ports.append(floats(names.of_layer(names.CROSS_ATTENTIONS, layer), *heads, source))
    return ports
