"""Ports, facts and parameters of a stack with any input."""

from dataclasses import replace

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts import anchors, conditional, deformable, distributions, mixed, proposals
from txexport.parts.inputs import input_of
from txexport.parts.inputs.tiles import tile_vectors
from txexport.parts.part import Shape
from txexport.spec import (
    AnchorStackSpec,
    ConditionalStackSpec,
    DeformableStackSpec,
    DistributionStackSpec,
    FeedForwardSpec,
    FourierMixingSpec,
    LengthAdapterSpec,
    MixedStackSpec,
    PageBiasSpec,
    ProposalStackSpec,
    QueryLayersSpec,
    QueryStackSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    SignalStackSpec,
    SinusoidVectorsSpec,
    SqueezeSpec,
    StackSpec,
    StagedStackSpec,
    TextStackSpec,
    TiledStackSpec,
)
from txexport.spec.lengths import adapter_of, behind, inside, least_behind, resampled, squeeze_of, strides
from txexport.spec.parameters import block, feed_forward, layer_inputs, layout, merging, stack_streams
from txexport.spec.shapes import Shapes, linear, norm, under

QUERIES = (
    QueryStackSpec
    | ProposalStackSpec
    | DistributionStackSpec
    | DeformableStackSpec
    | ConditionalStackSpec
    | AnchorStackSpec
    | MixedStackSpec
)
TOKENS: Shape = (names.BATCH_SIZE, names.SEQUENCE_LENGTH)


def hidden_shape(stack: StackSpec, tokens: Shape) -> Shape:
    """Shape (B,S) of hidden states, for texts of shape `tokens`."""
    length = input_of(stack).length(stack.embedding, tokens[1])
    return tokens[0], length


def layers_shape(stack: StackSpec, tokens: Shape) -> Shape:
    """Shape (B,S) of the hidden states of layers, for texts of shape `tokens`."""
    rows, length = hidden_shape(stack, tokens)
    return rows, names.ENCODER_SEQUENCE_LENGTH if resampled(stack) else length


def query_layers(stack: StackSpec) -> dict[str, tuple[QueryLayersSpec, int, int]]:
    """The layers of a stack of queries, with the number of their vectors and of the places that they read."""
    if isinstance(stack, ProposalStackSpec | DistributionStackSpec):
        rows, columns = stack.embedding.grids[-1]
        return {"layers": (stack.cells, rows * columns, 0), "query_layers": (stack.objects, stack.queries, 0)}
    if isinstance(stack, DeformableStackSpec):
        return {"layers": (stack.cells, stack.area, 0), "query_layers": (stack.objects, stack.queries, 0)}
    if isinstance(stack, MixedStackSpec):
        return {"query_layers": (stack.objects, stack.queries, 0)}
    if not isinstance(stack, QueryStackSpec | ConditionalStackSpec | AnchorStackSpec):
        return {}
    cells = stack.embedding.length
    return {"layers": (stack.cells, cells, 0), "query_layers": (stack.objects, stack.queries, cells)}


def query_operations(stack: StackSpec) -> dict[str, int]:
    """The operations of each group of layers of a stack of queries for a row, by name; none elsewhere."""
    if isinstance(stack, ProposalStackSpec):
        return proposals.operations(stack)
    if isinstance(stack, DistributionStackSpec):
        return distributions.operations(stack)
    if isinstance(stack, DeformableStackSpec):
        return deformable.operations(stack)
    if isinstance(stack, ConditionalStackSpec):
        return conditional.operations(stack)
    if isinstance(stack, AnchorStackSpec):
        return anchors.operations(stack)
    if isinstance(stack, MixedStackSpec):
        return mixed.operations(stack)
    result, width = {}, stack.hidden_size
    for name, (part, count, cells) in query_layers(stack).items():
        attention = 4 * count * width**2 + 2 * count**2 * width
        crossed = 2 * (count + cells) * width**2 + 2 * count * cells * width if cells else 0
        network = 2 * count * width * part.intermediate_size
        result[name] = 2 * part.num_layers * (attention + crossed + network)
    return result


def layer_vectors(stack: StackSpec, length: int) -> list[int]:
    """The number of vectors that each layer reads of a row; a text has `length` tokens."""
    if isinstance(stack, StagedStackSpec):
        sizes = [rows * columns for rows, columns in stack.grids(stack.embedding.grid)]
        return [
            size for size, stage in zip(sizes, stack.stages, strict=True) for _ in range(stage.num_layers)
        ]
    return [inside(stack, input_of(stack).vectors(stack.embedding, length))] * stack.num_layers


def returned_vectors(stack: StackSpec, length: int) -> int:
    """The number of vectors that a stack returns of a row; a text has `length` tokens."""
    if isinstance(stack, QUERIES):
        return stack.queries
    if isinstance(stack, StagedStackSpec):
        return layer_vectors(stack, length)[-1]
    if isinstance(stack, TiledStackSpec):
        return stack.embedding.length  # without padding
    return behind(stack, input_of(stack).vectors(stack.embedding, length))


def merged_vectors(stack: StackSpec) -> dict[str, tuple[int, int]]:
    """Of each merging, by its name: the vectors that it returns of a row, and the operations of one beside
    those of its matrix. None without stages.
    """
    if not isinstance(stack, StagedStackSpec):
        return {}
    grids, mergings = stack.grids(stack.embedding.grid), [stage.merging for stage in stack.stages]
    return {
        f"mergings.{number}": (rows * columns, merging.operations)
        for number, ((rows, columns), merging) in enumerate(zip(grids[1:], mergings, strict=False))
        if merging is not None
    }


def facts(stack: StackSpec, vectors: int = 1) -> GraphFacts:
    """The facts of a graph that needs `vectors` vectors of what the stack returns."""
    embedded = input_of(stack).facts(stack.embedding)
    within, between = (embedded.vector_stride * stride for stride in strides(stack))
    return replace(
        embedded,
        least_samples=embedded.least_samples + (least_behind(stack, vectors) - 1) * embedded.vector_stride,
        vector_stride=between,
        layer_stride=within if within != between else 0,
    )


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
    if names.HIDDEN_STATES in outputs and isinstance(stack, StagedStackSpec):
        widths = [stack.embedding.hidden_size, *(stage.size for stage in stack.stages)]
        for number, width in enumerate(widths):
            length = shape[1] if number >= len(stack.stages) - 1 else f"{shape[1]}_{number}"
            state = names.of_layer(names.HIDDEN_STATES, number, name)
            ports.append(floats(state, shape[0], length, width))
    elif names.HIDDEN_STATES in outputs:
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


def mixes_padding(stack: StackSpec) -> bool:
    """True where padding changes the vectors of other tokens than those beside it."""
    return isinstance(stack, TextStackSpec) and stack.mixes_padding


def transforms(stack: StackSpec) -> bool:
    """True where layers sum over all tokens by a Fourier transform."""
    return any(isinstance(block.attention, FourierMixingSpec) for block in stack.layers)


def parameters(stack: StackSpec) -> Shapes:
    """Embedding, relative bias, layers, final norm."""
    shapes = under("embedding", input_of(stack).parameters(stack.embedding))
    match stack.relative:
        case RelativeSpec(buckets=buckets, every_layer=several):
            tables = [f"relative.{layer}" for layer in range(stack.num_layers)] if several else ["relative"]
            for table in tables:
                shapes[f"{table}.weight"] = (buckets, stack.blocks[0].attention.num_heads)
        case PageBiasSpec(tables=tables):
            heads = stack.blocks[0].attention.num_heads
            shapes |= {f"relative.{name}.weight": (table.buckets, heads) for name, table in tables.items()}
        case RelativeVectorsSpec() as relative:
            shapes |= under("relative", _relative_vectors(relative, stack.hidden_size))
    if isinstance(stack, SignalStackSpec) and stack.layer_positions:
        positions = shapes["embedding.position.weight"]
        shapes |= {f"layer_positions.{layer}.weight": positions for layer in range(stack.num_layers - 1)}
    for layer, kind in enumerate(stack.layers):
        shapes |= under(f"layers.{layer}", block(kind))
    if isinstance(stack, QueryStackSpec):
        shapes |= _queries(stack)
    if isinstance(stack, ProposalStackSpec):
        shapes |= proposals.parameters(stack)
    if isinstance(stack, DistributionStackSpec):
        shapes |= distributions.parameters(stack)
    if isinstance(stack, DeformableStackSpec):
        shapes |= deformable.parameters(stack)
    if isinstance(stack, ConditionalStackSpec):
        shapes |= conditional.parameters(stack)
    if isinstance(stack, AnchorStackSpec):
        shapes |= anchors.parameters(stack)
    if isinstance(stack, MixedStackSpec):
        shapes |= mixed.parameters(stack)
    if isinstance(stack, StagedStackSpec):
        for number, stage in enumerate(stack.stages):
            if stage.merging is not None:
                shapes |= under(f"mergings.{number}", merging(stage.merging))
        for number, stage in enumerate(stack.stages):
            if stage.norm is not None:
                shapes |= under(f"norms.{number}", norm(stage.norm))
        for number, stage in enumerate(stack.stages):
            if stage.map_norm is not None:
                shapes |= under(f"map_norms.{number}", norm(stage.map_norm))
    if isinstance(stack, TiledStackSpec):
        shapes |= under("middle_norm", norm(stack.middle_norm)) | tile_vectors("after", stack.embedding)
    if stack.final_norm is not None:
        shapes |= under("final_norm", norm(stack.final_norm))
    if isinstance(stack, TextStackSpec) and stack.layer_inputs is not None:
        inputs = layer_inputs(stack.layer_inputs, stack.hidden_size, stack.num_layers)
        shapes |= under("layer_inputs", inputs)
    if isinstance(stack, TextStackSpec) and stack.layout is not None:
        shapes |= under("layout", layout(stack.layout))
    if isinstance(stack, TextStackSpec) and stack.streams is not None:
        shapes |= stack_streams(stack.streams)
    if (squeeze := squeeze_of(stack)) is not None:
        shapes |= _squeeze(squeeze)
    if (adapter := adapter_of(stack)) is not None:
        shapes |= under("length_adapter", _length_adapter(adapter, stack.hidden_size))
    return shapes


def _queries(stack: QueryStackSpec) -> Shapes:
    """The layers over places and over queries, their norms, and the learned vectors of queries."""
    width, shapes = stack.hidden_size, Shapes()
    for name, (part, _, cells) in query_layers(stack).items():
        network = FeedForwardSpec(width, part.intermediate_size, stack.activation)
        for layer in range(part.num_layers):
            parts = {"attention": proposals.separate(width)} | (
                {"cross_attention": proposals.separate(width)} if cells else {}
            )
            for sublayer, inner in (parts | {"feed_forward": feed_forward(network)}).items():
                shapes |= under(f"{name}.{layer}.{sublayer}", inner)
                shapes |= under(f"{name}.{layer}.{sublayer}_norm", norm(stack.norm))
    if stack.pre_norm:
        shapes |= under("layers_norm", norm(stack.norm))
    shapes["queries.weight"] = (stack.queries, width)
    return shapes | under("query_norm", norm(stack.norm))


def _squeeze(spec: SqueezeSpec) -> Shapes:
    """The convolution that gives positions, the norm, and the projection behind the layers."""
    width, kernel = spec.norm.size, spec.position_kernel
    return {
        "squeeze.position.weight": (width, width // spec.position_groups, kernel),
        "squeeze.position.bias": (width,),
        **under("squeeze.norm", norm(spec.norm)),
        **under("upsampling.project", linear(width, width * spec.factor, True)),
    }


def _length_adapter(spec: LengthAdapterSpec, hidden_size: int) -> Shapes:
    """The first feed-forward network, the projection and its norm, and the layers."""
    width, shapes = spec.hidden_size, Shapes()
    convolution: Shapes = {"weight": (2 * width, width, spec.kernel), "bias": (2 * width,)}
    if spec.feed_forward is not None:
        shapes |= under("before.feed_forward", feed_forward(spec.feed_forward))
    if spec.norm is not None:
        shapes |= under("project", linear(hidden_size, width, True)) | under("norm", norm(spec.norm))
    for layer in range(spec.num_layers):
        if spec.block is None:
            shapes |= under(f"convolutions.{layer}", convolution)
            continue
        parts = under("residual_norm", norm(spec.block.norm)) | under("residual", convolution)
        parts |= under("convolution", convolution) | block(spec.block)
        shapes |= under(f"layers.{layer}", parts)
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
