"""Stacks of queries that begin as places of an image."""

from collections.abc import Callable, Sequence
from functools import cache, partial

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.contracts import names
from txexport.spec import (
    DeformableAttentionSpec,
    DistributionStackSpec,
    FeedForwardSpec,
    ProposalStackSpec,
    QueryBlockSpec,
    QueryLayersSpec,
)
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.deformable_attention import deformable_attention
from txgraphs.feedforward import feed_forward
from txgraphs.fusion_pyramid import fusion_pyramid
from txgraphs.heads.boxes import perceptron, refined
from txgraphs.inputs.resnet import convolution_norm
from txgraphs.inputs.resnet_levels import resnet_levels_embedding
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.query_stack import query_layer
from txgraphs.separate_attention import separate_attention

SIDE, EDGE = (
    0.05,
    0.01,
)  # of the first boxes of the finest map, as a share of the image's; of boxes that are none
LARGE = 3.0e38  # a logit of 1


@component("queries", "references")
def proposals(
    spec: ProposalStackSpec | DistributionStackSpec,
    g: Body,
    image: ir.Value,
    anchors: ir.Value,
    inside: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """The places of maps that score highest, and their boxes (Zhao et al. 2024, 4.3).

    image (B,S,W), anchors (S,4), inside (S,1) -> queries (B,Q,W), references (B,Q,4).
    """
    op, last = g.op, g.op.Constant(value_ints=[-1])
    seen = op.Mul(image, op.CastLike(inside, image))
    vectors = norm(spec.object_block.norm, g / "norm", linear(True, g / "vector", seen))  # (B, S, W)
    one = op.Constant(value_ints=[1])
    scores, _ = op.TopK(linear(True, g / "scores", vectors), one, name=["scores", "labels"])  # (B, S, 1)
    count = op.Constant(value_ints=[spec.queries])
    _, best = op.TopK(op.Squeeze(scores, last), count, name=["merit", "best"])  # (B, Q)
    queries = op.GatherND(vectors, op.Unsqueeze(best, last), batch_dims=1)  # (B, Q, W)
    moved = op.Add(perceptron(g, "box", spec.box_layers, queries), op.Gather(anchors, best))
    references = op.Sigmoid(moved)
    return queries, references


@component("y")
def proposal_layer(
    spec: QueryBlockSpec,
    layers: QueryLayersSpec,
    attention: DeformableAttentionSpec,
    g: Body,
    x: ir.Value,
    positions: ir.Value,
    references: ir.Value,
    image: ir.Value,
    sizes: dict[str, ir.Value],
    **masks: ir.Value,
) -> ir.Value:
    """Attention to one another and to places near a box, and a network (Zhu et al. 2021, 4.1).

    x and positions (B,Q,W), boxes (B,Q,4), image (B,S,W), rows and columns of levels -> y (B,Q,W). References
    and masks are those of deformable_attention.
    """
    op, width, place = g.op, spec.hidden_size, g / "cross_attention"
    query, heads = op.Add(x, positions), (layers.num_heads, width)
    mixed = separate_attention(*heads, g / "attention", query, query, x)
    x = norm(spec.norm, g / "attention_norm", op.Add(x, mixed))
    query = op.Add(x, positions)
    read = deformable_attention(attention, place, query, references, image, sizes, **masks)
    x = norm(spec.norm, g / "cross_attention_norm", op.Add(x, read))
    network = FeedForwardSpec(width, layers.intermediate_size, spec.activation)
    y = norm(spec.norm, g / "feed_forward_norm", op.Add(x, feed_forward(network, g / "feed_forward", x)))
    return y


@component("positions")
def box_positions(g: Body, references: ir.Value) -> ir.Value:
    """Boxes as positions of queries (Zhao et al. 2024, 4.3).

    references (B,Q,4) -> positions (B,Q,W).
    """
    positions = perceptron(g, "layers", 2, references)
    return positions


@component("boxes")
def box_change(layers: int, g: Body, x: ir.Value, references: ir.Value) -> ir.Value:
    """Boxes that a layer has changed (Zhu et al. 2021, A.4).

    x (B,Q,W), references (B,Q,4) -> boxes (B,Q,4).
    """
    boxes = g.call(refined, perceptron(g, "layers", layers, x), references)
    return boxes


Stack = ProposalStackSpec | DistributionStackSpec
Maps = Sequence[ir.Value]
Pyramid = Callable[[dict[str, ir.Value]], Maps]


def places_as_queries(
    spec: Stack,
    graph: Graph,
    stack: str,
    maps: Maps,
    pyramid: Callable[[dict[str, ir.Value]], Maps],
    projected: bool,
) -> tuple[ir.Value, ir.Value, ir.Value, dict[str, ir.Value]]:
    """The likeliest places of an image's maps as queries; the twin of PlacesAsQueries.

    maps (B,W,R,C) -> queries (B,Q,W), boxes (B,Q,4), image (B,S,W), rows and columns of levels.
    """
    op, (*finer, coarse) = graph.op, maps
    x = graph.call(flat_map, coarse, name="places")  # (B, S, W)
    sines = map_positions(spec.embedding.hidden_size, spec.temperature)
    positions = graph.call(sines, coarse, name="positions")  # (1, S, W)
    for number in range(spec.cells.num_layers):
        layer = graph / f"{stack}.layers.{number}"
        x = query_layer(spec.cell_block, spec.cells, layer, x, positions, None)
    joined = [*finer, graph.call(unflat_map, x, coarse, name="coarse")]
    maps = pyramid({str(level): x for level, x in enumerate(joined)})
    if projected:
        maps = [
            convolution_norm(spec.hidden_size, 1, 1, spec.eps, graph / f"{stack}.levels.{level}", x)
            for level, x in enumerate(maps)
        ]
    flat = [graph.call(flat_map, x, name=f"level_places.{level}") for level, x in enumerate(maps)]
    image = op.Concat(*flat, axis=1)  # (B, S, W)
    pairs = [
        graph.call(first_boxes, x, op.Constant(value_float=SIDE * 2**level), name=f"first_boxes.{level}")
        for level, x in enumerate(maps)
    ]
    anchors, inside = (op.Concat(*parts, axis=0) for parts in zip(*pairs, strict=True))
    y, references = proposals(spec, graph / f"{stack}.proposals", image, anchors, inside)
    return y, references, image, {str(level): op.Shape(x, start=2, end=4) for level, x in enumerate(maps)}


def proposal_encoder(
    spec: ProposalStackSpec, graph: Graph, inputs: dict[str, ir.Value], stack: str = "encoder"
) -> tuple[ir.Value, ir.Value]:
    """An image's maps, and queries that begin as their likeliest places; the twin of ProposalEncoder.

    pixel_values (B,channels,height,width) -> queries (B,Q,W), references (B,Q,4).
    """
    maps = resnet_levels_embedding(spec.embedding, graph / f"{stack}.embedding", inputs[names.PIXEL_VALUES])
    pyramid = partial(fusion_pyramid, spec.pyramid, graph / f"{stack}.pyramid")
    y, references, image, sizes = places_as_queries(spec, graph, stack, maps, pyramid, projected=True)
    for number in range(spec.objects.num_layers):
        positions = box_positions(graph / f"{stack}.query_position", references)
        place = graph / f"{stack}.query_layers.{number}"
        layer = spec.object_block, spec.objects, spec.attention
        y = proposal_layer(*layer, place, y, positions, references, image, sizes)
        if number < spec.objects.num_layers - 1:
            references = box_change(spec.box_layers, graph / f"{stack}.boxes.{number}", y, references)
    return y, references


@script(domain, default_opset=op)
def flat_map(x):
    """x (B,W,R,C) -> vectors (B,S,W) of its places."""
    vectors = op.Transpose(op.Reshape(x, op.Constant(value_ints=[0, 0, -1])), perm=[0, 2, 1])
    return vectors


@script(domain, default_opset=op)
def unflat_map(vectors, like):
    """vectors (B,S,W), a map (B,W,R,C) -> x of the map's shape."""
    x = op.Reshape(op.Transpose(vectors, perm=[0, 2, 1]), op.Shape(like))
    return x


@cache
def map_positions(width: int, temperature: float) -> OnnxFunction:
    """A map x (B,W,R,C) -> sines and cosines of rows and of columns (1,S,W) (Zhao et al. 2024, 4.2)."""
    periods = [temperature ** (4 * step / width) for step in range(width // 4)]

    @script(domain, default_opset=op)
    def map_positions(x):
        zero, one, last = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[-1])
        every = op.CastLike(op.Constant(value_floats=periods), x)
        rows, columns = op.Shape(x, start=2, end=3), op.Shape(x, start=3)
        down = op.CastLike(op.Range(zero, op.Squeeze(rows), one), x)
        across = op.CastLike(op.Range(zero, op.Squeeze(columns), one), x)
        turns_down = op.Unsqueeze(down, last) / every  # (R, W / 4)
        turns_across = op.Unsqueeze(across, last) / every  # (C, W / 4)
        both_down = op.Concat(op.Sin(turns_down), op.Cos(turns_down), axis=1)
        both_across = op.Concat(op.Sin(turns_across), op.Cos(turns_across), axis=1)
        shape = op.Concat(rows, columns, op.Constant(value_ints=[width // 2]), axis=0)
        all_down = op.Expand(op.Unsqueeze(both_down, op.Constant(value_ints=[1])), shape)  # (R, C, W / 2)
        all_across = op.Expand(op.Unsqueeze(both_across, op.Constant(value_ints=[0])), shape)
        grid = op.Concat(all_down, all_across, axis=2)  # (R, C, W)
        positions = op.Reshape(grid, op.Constant(value_ints=[1, -1, width]))
        return positions

    return map_positions


@script(domain, default_opset=op)
def first_boxes(x, side):
    """A map x (B,W,R,C), the side of a box () -> logits of boxes (S,4), and which are inside (S,1)."""
    zero, one, last = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[-1])
    half, unit = op.Constant(value_float=0.5), op.Constant(value_float=1.0)
    rows, columns = op.Shape(x, start=2, end=3), op.Shape(x, start=3)
    down = (op.CastLike(op.Range(zero, op.Squeeze(rows), one), half) + half) / op.CastLike(rows, half)
    across = (op.CastLike(op.Range(zero, op.Squeeze(columns), one), half) + half) / op.CastLike(columns, half)
    shape = op.Concat(rows, columns, axis=0)
    all_down = op.Reshape(op.Expand(op.Unsqueeze(down, last), shape), op.Constant(value_ints=[-1, 1]))
    all_across = op.Reshape(op.Expand(across, shape), op.Constant(value_ints=[-1, 1]))
    sides = op.Expand(op.Reshape(side, op.Constant(value_ints=[1, 1])), op.Shape(all_down))
    boxes = op.Concat(all_across, all_down, sides, sides, axis=1)  # (S, 4)
    within = op.And(boxes > op.Constant(value_float=EDGE), boxes < op.Constant(value_float=1 - EDGE))
    count = op.ReduceSum(op.CastLike(within, half), op.Constant(value_ints=[1]))  # (S, 1)
    inside = count > op.Constant(value_float=3.5)
    numbers = op.Where(inside, op.Log(boxes / (unit - boxes)), op.Constant(value_float=LARGE))
    logits = op.CastLike(numbers, x)
    return logits, inside
