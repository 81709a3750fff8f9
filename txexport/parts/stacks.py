"""Ports and parameters of a stack with any input."""

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.parts.inputs import input_of
from txexport.parts.part import Shape
from txexport.spec import RelativeSpec, RelativeVectorsSpec, SinusoidVectorsSpec, StackSpec
from txexport.spec.parameters import block
from txexport.spec.shapes import Shapes, norm, under

TOKENS: Shape = (names.BATCH_SIZE, names.SEQUENCE_LENGTH)


def hidden_shape(stack: StackSpec, tokens: Shape) -> Shape:
    """Shape (B,S) of hidden states, for texts of shape `tokens`."""
    length = input_of(stack).length(stack.embedding, tokens[1])
    return tokens[0], length


def layer_ports(
    stack: StackSpec,
    name: str | None,
    outputs: tuple[str, ...],
    shape: Shape,
    keys: int | str,
    source: int | str | None = None,
) -> list[Port]:
    """Ports of hidden states in `shape` (B,S), and of weights of `keys` keys and those of a `source`."""
    ports: list[Port] = []
    if names.HIDDEN_STATES in outputs:
        for layer in range(stack.num_layers + 1):
            ports.append(floats(names.of_layer(names.HIDDEN_STATES, layer, name), *shape, stack.hidden_size))
    if names.ATTENTIONS not in outputs:
        return ports
    for layer, kind in enumerate(stack.layers):
        heads = shape[0], kind.attention.num_heads, shape[1]
        ports.append(floats(names.of_layer(names.ATTENTIONS, layer, name), *heads, keys))
    for layer, kind in enumerate(stack.layers):
        if kind.cross_attention is not None and source is not None:
            heads = shape[0], kind.cross_attention.num_heads, shape[1]
            ports.append(floats(names.of_layer(names.CROSS_ATTENTIONS, layer), *heads, source))
    return ports


def parameters(stack: StackSpec) -> Shapes:
    """Embedding, relative bias, layers, final norm."""
    shapes = under("embedding", input_of(stack).parameters(stack.embedding))
    match stack.relative:
        case RelativeSpec(buckets=buckets, every_layer=several):
            tables = [f"relative.{layer}" for layer in range(stack.num_layers)] if several else ["relative"]
            for table in tables:
                shapes[f"{table}.weight"] = (buckets, stack.blocks[0].attention.num_heads)
        case RelativeVectorsSpec() as relative:
            shapes |= under("relative", _relative_vectors(relative, stack.hidden_size))
    for layer, kind in enumerate(stack.layers):
        shapes |= under(f"layers.{layer}", block(kind))
    if stack.final_norm is not None:
        shapes |= under("final_norm", norm(stack.final_norm))
    return shapes


def relative_vectors(stack: StackSpec, length: int) -> int:
    """The number of vectors of relative positions that attention multiplies with; 0 without any."""
    match stack.relative:
        case RelativeVectorsSpec() | SinusoidVectorsSpec() as relative:
            return relative.vectors(length)
    return 0


def _relative_vectors(spec: RelativeVectorsSpec, hidden_size: int) -> Shapes:
    """Vectors of relative positions, and their norm."""
    shapes: Shapes = {"weight": (2 * spec.span, hidden_size)}
    return shapes | (under("norm", norm(spec.norm)) if spec.norm is not None else {})
