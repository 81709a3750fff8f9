"""Stacks of queries whose boxes have distributions of edges."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.contracts import names
from txexport.spec import DistributionStackSpec, FeedForwardSpec, NormSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.aggregation_pyramid import aggregation_pyramid
from txgraphs.convolution_norm import convolution_norm
from txgraphs.deformable_attention import deformable_attention
from txgraphs.edges import edge_boxes
from txgraphs.feedforward import feed_forward
from txgraphs.heads.boxes import perceptron
from txgraphs.inputs.hgnet_levels import hgnet_levels_embedding
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.proposal_stack import (
    SIDE,
    box_change,
    box_positions,
    first_boxes,
    flat_map,
    map_positions,
    proposals,
    unflat_map,
)
from txgraphs.query_stack import query_layer
from txgraphs.separate_attention import separate_attention

FURTHEST, LARGEST = 10.0, 65504.0  # of positions; of what the last norm of a layer reads


@component("y")
def gated_residual(spec: NormSpec, g: Body, x: ir.Value, read: ir.Value) -> ir.Value:
    """Vectors and what they read, each multiplied by gates that both give, and a norm.

    x and read (B,Q,W) -> y (B,Q,W).
    """
    op = g.op
    gates = op.Sigmoid(linear(True, g / "gates", op.Concat(x, read, axis=2)))
    sizes = op.Constant(value_ints=[spec.size, spec.size])
    first, second = op.Split(gates, sizes, axis=2, name=["first", "second"])
    y = norm(spec, g / "norm", op.Add(op.Mul(first, x), op.Mul(second, read)))
    return y


@component("y")
def distribution_layer(
    spec: DistributionStackSpec,
    g: Body,
    x: ir.Value,
    positions: ir.Value,
    references: ir.Value,
    image: ir.Value,
    sizes: dict[str, ir.Value],
) -> ir.Value:
    """Attention to one another and to places near a box, joined by gates, and a network.

    x and positions (B,Q,W), boxes (B,Q,4), image (B,S,W), rows and columns of levels -> y (B,Q,W).
    """
    op, block, layers, width = g.op, spec.object_block, spec.objects, spec.hidden_size
    query, heads = op.Add(x, positions), (layers.num_heads, width)
    mixed = separate_attention(*heads, g / "attention", query, query, x)
    x = norm(block.norm, g / "attention_norm", op.Add(x, mixed))
    query, place = op.Add(x, positions), g / "cross_attention"
    read = deformable_attention(spec.attention, place, query, references, image, sizes)
    x = gated_residual(spec.gate_norm, g / "gate", x, read)
    network = FeedForwardSpec(width, layers.intermediate_size, block.activation)
    changed = op.Add(x, feed_forward(network, g / "feed_forward", x))
    y = norm(block.norm, g / "feed_forward_norm", g.call(clipped(LARGEST), changed))
    return y


@component("scores")
def edge_scores(
    spec: DistributionStackSpec, g: Body, x: ir.Value, before: ir.Value | None, scores: ir.Value | None
) -> ir.Value:
    """Scores of the edges of boxes, which a layer changes (Peng et al. 2024, 4.1).

    Queries (B,Q,W), those before the layer and their scores (B,Q,4*(bins+1)), if any -> scores.
    """
    changed = perceptron(g, "layers", spec.box_layers, x if before is None else g.op.Add(x, before))
    return changed if scores is None else g.op.Add(changed, scores)


@cache
def clipped(most: float) -> OnnxFunction:
    """See txmodels.distribution_stack."""
    least = -most

    @script(domain, default_opset=op)
    def clipped(x):
        """Numbers between -most and most."""
        low = op.CastLike(op.Constant(value_float=least), x)
        y = op.Clip(x, low, op.CastLike(op.Constant(value_float=most), x))
        return y

    return clipped


def distribution_encoder(
    spec: DistributionStackSpec, graph: Graph, inputs: dict[str, ir.Value], stack: str = "encoder"
) -> tuple[ir.Value, ir.Value]:
    """An image's maps, and queries that begin as their likeliest places; the twin of DistributionEncoder.

    pixel_values (B,channels,height,width) -> queries (B,Q,W), boxes and scores (B,Q,4+4*(bins+1)).
    """
    op, width = graph.op, spec.hidden_size
    place = graph / f"{stack}.embedding"
    *finer, coarse = hgnet_levels_embedding(spec.embedding, place, inputs[names.PIXEL_VALUES])
    x = graph.call(flat_map, coarse, name="places")  # (B, S, W)
    sines = map_positions(spec.embedding.hidden_size, spec.temperature)
    positions = graph.call(sines, coarse, name="positions")  # (1, S, W)
    for number in range(spec.cells.num_layers):
        place = graph / f"{stack}.layers.{number}"
        x = query_layer(spec.cell_block, spec.cells, place, x, positions, None)
    maps = [*finer, graph.call(unflat_map, x, coarse, name="coarse")]
    place = graph / f"{stack}.pyramid"
    maps = aggregation_pyramid(spec.pyramid, place, {str(level): x for level, x in enumerate(maps)})
    if spec.embedding.hidden_size != width:
        maps = [
            convolution_norm(width, 1, 1, spec.eps, graph / f"{stack}.levels.{level}", x)
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
    sizes = {str(level): op.Shape(x, start=2, end=4) for level, x in enumerate(maps)}
    before, first, scores = None, references, None
    for number in range(spec.objects.num_layers):
        positions = box_positions(graph / f"{stack}.query_position", references)
        positions = graph.call(clipped(FURTHEST), positions)
        place = graph / f"{stack}.query_layers.{number}"
        y = distribution_layer(spec, place, y, positions, references, image, sizes)
        if not number:
            first = box_change(spec.box_layers, graph / f"{stack}.first_box", y, references)
        scores = edge_scores(spec, graph / f"{stack}.edges.{number}", y, before, scores)
        before, references = y, edge_boxes(spec.edges, graph / f"{stack}.boxes", first, scores)
    return y, op.Concat(references, scores, axis=2)
