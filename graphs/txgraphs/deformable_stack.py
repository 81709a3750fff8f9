"""Stacks of queries that read points of an image's maps."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import DeformableStackSpec, NormSpec
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.deformable_pyramid import deformable_layer
from txgraphs.grounded_stack import (
    SIDE,
    by_level,
    flat_mask,
    map_level,
    place_boxes,
    place_points,
    placed,
)
from txgraphs.heads.boxes import perceptron
from txgraphs.inputs.masked_maps import masked_maps_embedding
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.phrases import number_sines
from txgraphs.proposal_stack import box_change, proposal_layer
from txgraphs.query_stack import of_every_row, resized_mask, sine_positions
from txgraphs.staged_stack import flat_grid

START = 0.5  # of rows and columns, which are counted at the centres of places


@component("queries", "positions", "references")
def learned_queries(
    spec: DeformableStackSpec, g: Body, image: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Learned queries, and the points near which they read (Zhu et al. 2021, 4.1).

    image (B,S,W) -> queries and their positions (B,Q,W), boxes (B,Q,4), whose sides are halves.
    """
    op = g.op
    both = g.call(of_every_row, g.weight("vectors.weight"), image)  # (B, Q, 2 * W)
    positions, queries = _halves(g, spec.hidden_size, both)  # (B, Q, W)
    points = op.Sigmoid(linear(True, g / "point", positions))  # (B, Q, 2)
    half = op.CastLike(op.Constant(value_float=0.5), points)
    references = op.Concat(points, op.Expand(half, op.Shape(points)), axis=2)  # (B, Q, 4)
    return queries, positions, references


@component("queries", "positions", "references")
def proposed_queries(
    spec: DeformableStackSpec, g: Body, image: ir.Value, anchors: ir.Value, inside: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """The places that score highest as queries, and their boxes (Zhu et al. 2021, A.4).

    image (B,S,W), anchors (B,S,4), inside (B,S) -> queries and their positions (B,Q,W), boxes (B,Q,4). The
    score is that of the first label.
    """
    op, last = g.op, g.op.Constant(value_ints=[2])
    zero = op.CastLike(op.Constant(value_float=0.0), image)
    vectors = linear(True, g / "vector", op.Where(op.Unsqueeze(inside, last), image, zero))
    vectors = norm(spec.block.norm, g / "norm", vectors)  # (B, S, W)
    scores = op.Squeeze(linear(True, g / "score", vectors), last)  # (B, S)
    count = op.Constant(value_ints=[spec.queries])
    _, best = op.TopK(scores, count, name=["merit", "best"])  # (B, Q)
    index = op.Unsqueeze(best, last)  # (B, Q, 1)
    chosen = op.GatherND(vectors, index, batch_dims=1)  # (B, Q, W)
    first = op.GatherND(anchors, index, batch_dims=1)  # (B, Q, 4)
    references = op.Sigmoid(op.Add(perceptron(g, "box", spec.box_layers, chosen), first))
    sines = g.call(number_sines(spec.hidden_size // 2), references)  # (B, Q, 2 * W)
    scale = NormSpec(2 * spec.hidden_size, spec.block.norm.eps)
    both = norm(scale, g / "position_norm", linear(True, g / "position", sines))
    positions, queries = _halves(g, spec.hidden_size, both)  # (B, Q, W)
    return queries, positions, references


def _halves(g: Body, width: int, both: ir.Value) -> tuple[ir.Value, ir.Value]:
    """both (B,Q,2 * W) -> its halves (B,Q,W)."""
    sizes = g.op.Constant(value_ints=[width, width])
    positions, queries = g.op.Split(both, sizes, axis=2, name=["positions", "queries"])
    return positions, queries


def deformable_encoder(
    spec: DeformableStackSpec, graph: Graph, inputs: dict[str, ir.Value], stack: str = "encoder"
) -> tuple[ir.Value, ir.Value]:
    """An image's maps through layers over their places, and queries that read points of them.

    The twin of DeformableEncoder: pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries
    (B,Q,W), boxes (B,Q,4).
    """
    op, maps = graph.op, _levels(spec, graph, inputs[names.PIXEL_VALUES], stack)
    real = [
        graph.call(resized_mask, inputs[names.PIXEL_MASK], x, name=f"real.{level}")
        for level, x in enumerate(maps)
    ]  # (B, R, C)
    turning = sine_positions(spec.hidden_size, graph.dtype, start=START)
    every = (graph / f"{stack}.level_embed").weight("weight")
    positions = []
    for level, one in enumerate(real):
        sines = graph.call(turning, one, name=f"positions.{level}")
        number = op.Constant(value_int=level)
        positions.append(graph.call(placed, sines, every, number, name=f"placed.{level}"))
    positions = op.Concat(*positions, axis=1)  # (B, S, W)
    sizes = {str(level): op.Shape(x, start=1, end=3) for level, x in enumerate(maps)}
    flat = [graph.call(flat_grid, x, name=f"places.{level}") for level, x in enumerate(maps)]
    image = op.Concat(*flat, axis=1)  # (B, S, W)
    pairs = [graph.call(place_points, one, image, name=f"points.{level}") for level, one in enumerate(real)]
    points, shares = zip(*pairs, strict=True)
    share = op.Concat(*shares, axis=1)  # (B, L, 2)
    references = graph.call(by_level, op.Concat(*points, axis=1), share, name="references")  # (B, S, L, 2)
    flat_real = [graph.call(flat_mask, one, name=f"flat_real.{level}") for level, one in enumerate(real)]
    real_places = op.Concat(*flat_real, axis=1)  # (B, S)
    switches = spec.block, spec.cells, spec.cell_attention
    for number in range(spec.cells.num_layers):
        place = graph / f"{stack}.layers.{number}"
        image = deformable_layer(*switches, place, image, positions, references, sizes, real=real_places)
    if spec.proposed:
        sides = [op.Constant(value_float=SIDE * 2**level) for level in range(len(maps))]
        first = [
            graph.call(place_boxes, *one, name=f"anchors.{level}")
            for level, one in enumerate(zip(points, flat_real, sides, strict=True))
        ]
        anchors, inside = (op.Concat(*parts, axis=1) for parts in zip(*first, strict=True))
        y, learned, boxes = proposed_queries(spec, graph / f"{stack}.proposals", image, anchors, inside)
    else:
        y, learned, boxes = learned_queries(spec, graph / f"{stack}.queries", image)
    four = op.Concat(share, share, axis=2)  # (B, L, 4)
    for number in range(spec.objects.num_layers):
        wide = spec.reads_boxes(number)
        near = graph.call(by_level, boxes, four, name=f"near.{number}")  # (B, Q, L, 4)
        near = near if wide else op.Slice(near, [0], [2], [3])  # (B, Q, L, 2)
        place, attention = graph / f"{stack}.query_layers.{number}", spec.object_attention(wide)
        switches = spec.block, spec.objects, attention
        y = proposal_layer(*switches, place, y, learned, near, image, sizes, real=real_places)
        if spec.refined and number < spec.objects.num_layers - 1:
            boxes = box_change(spec.box_layers, graph / f"{stack}.boxes.{number}", y, boxes)
    return y, boxes


def _levels(spec: DeformableStackSpec, graph: Graph, pixel_values: ir.Value, stack: str) -> list[ir.Value]:
    """pixel_values (B,channels,height,width) -> maps (B,R,C,W), the finest first."""
    read = masked_maps_embedding(spec.embedding, graph / f"{stack}.embedding", pixel_values)
    maps: list[ir.Value] = []
    for level in range(spec.levels):
        source = read[min(level, len(read) - 1)] if level <= len(read) else maps[-1]
        place = graph / f"{stack}.maps.{level}"
        maps.append(map_level(spec.map_norm, level >= len(read), place, source))
    return maps
