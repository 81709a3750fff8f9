"""Stacks of learned queries whose boxes begin as places of an image."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names
from txexport.spec import MixedStackSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.grounded_stack import by_level, flat_mask, level_positions, place_points
from txgraphs.heads.boxes import perceptron, scaled
from txgraphs.inputs.windowed_maps import windowed_maps_embedding
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.proposal_stack import EDGE, SIDE, proposal_layer
from txgraphs.query_stack import of_every_row, resized_mask
from txgraphs.stack import Given
from txgraphs.staged_stack import flat_grid


@component("boxes")
def likeliest_boxes(
    spec: MixedStackSpec, g: Body, image: ir.Value, anchors: ir.Value, inside: ir.Value
) -> ir.Value:
    """The boxes of the places that score highest (Chen et al. 2024, 3.1).

    image (B,S,W), anchors (B,S,4), inside (B,S) -> boxes (B,Q,4).
    """
    op, last, one = g.op, g.op.Constant(value_ints=[2]), g.op.Constant(value_ints=[1])
    zero = op.CastLike(op.Constant(value_float=0.0), image)
    least = op.CastLike(op.Constant(value_float=float("-inf")), image)
    vectors = linear(True, g / "vector", op.Where(op.Unsqueeze(inside, last), image, zero))
    vectors = norm(spec.block.norm, g / "norm", vectors)  # (B, S, W)
    highest, _ = op.TopK(linear(True, g / "scores", vectors), one, name=["highest", "label"])  # (B, S, 1)
    scores = op.Where(inside, op.Squeeze(highest, last), least)  # (B, S)
    _, best = op.TopK(scores, op.Constant(value_ints=[spec.queries]), name=["merit", "best"])  # (B, Q)
    index = op.Unsqueeze(best, last)  # (B, Q, 1)
    chosen = op.GatherND(vectors, index, batch_dims=1)  # (B, Q, W)
    first = op.GatherND(anchors, index, batch_dims=1)  # (B, Q, 4)
    boxes = g.call(scaled, perceptron(g, "box", spec.box_layers, chosen), first)
    return boxes


@component("queries", "changed")
def learned_changes(g: Body, boxes: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Learned queries, and the change of the box that each has (Zhang et al. 2023, 3.3).

    boxes (B,Q,4) -> queries (B,Q,W), changed boxes (B,Q,4).
    """
    queries = g.call(of_every_row, g.weight("vectors"), boxes)  # (B, Q, W)
    changed = g.call(scaled, g.weight("changes"), boxes)
    return queries, changed


def mixed_encoder(
    spec: MixedStackSpec, graph: Graph, inputs: dict[str, ir.Value], outputs: Given, stack: str = "encoder"
) -> tuple[ir.Value, ir.Value]:
    """An image's maps, and learned queries whose boxes begin as their likeliest places.

    The twin of MixedEncoder: pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries (B,Q,W),
    boxes (B,Q,4).

    If a head reads maps, `outputs` is filled with the boxes and with the first level (B,R,C,W).
    """
    op, place = graph.op, graph / f"{stack}.embedding"
    maps = windowed_maps_embedding(spec.embedding, place, inputs[names.PIXEL_VALUES])  # (B, R, C, W)
    real = [
        graph.call(resized_mask, inputs[names.PIXEL_MASK], x, name=f"real.{level}")
        for level, x in enumerate(maps)
    ]  # (B, R, C)
    sizes = {str(level): op.Shape(x, start=1, end=3) for level, x in enumerate(maps)}
    flat = [graph.call(flat_grid, x, name=f"places.{level}") for level, x in enumerate(maps)]
    image = op.Concat(*flat, axis=1)  # (B, S, W)
    pairs = [graph.call(place_points, one, image, name=f"points.{level}") for level, one in enumerate(real)]
    points, shares = zip(*pairs, strict=True)
    share = op.Concat(*shares, axis=1)  # (B, L, 2)
    flat_real = [graph.call(flat_mask, one, name=f"flat_real.{level}") for level, one in enumerate(real)]
    real_places = op.Concat(*flat_real, axis=1)  # (B, S)
    sides = [op.Constant(value_float=SIDE * 2**level) for level in range(len(maps))]
    first = [
        graph.call(place_sides, *one, name=f"anchors.{level}")
        for level, one in enumerate(zip(points, flat_real, sides, strict=True))
    ]
    anchors, inside = (op.Concat(*parts, axis=1) for parts in zip(*first, strict=True))
    boxes = likeliest_boxes(spec, graph / f"{stack}.proposals", image, anchors, inside)
    y, boxes = learned_changes(graph / f"{stack}.queries", boxes)
    near = graph.call(by_level, boxes, op.Concat(share, share, axis=2), name="near")  # (B, Q, L, 4)
    positions = level_positions(spec.hidden_size, graph / f"{stack}.query_position", near)
    for number in range(spec.objects.num_layers):
        place, switches = graph / f"{stack}.query_layers.{number}", (spec.block, spec.objects, spec.attention)
        y = proposal_layer(*switches, place, y, positions, near, image, sizes, real=real_places)
    if outputs.maps is not None:
        outputs.maps |= {"boxes": boxes, "level": maps[0]}
    y = norm(spec.block.norm, graph / f"{stack}.query_norm", y)
    return y, boxes


@script(domain, default_opset=op)
def place_sides(points, real, side):
    """points (B,S,2), which are of the image (B,S), a side () -> boxes (B,S,4), and which have one (B,S)."""
    last, zero = op.Constant(value_ints=[2]), op.CastLike(op.Constant(value_float=0.0), points)
    least, most = op.Constant(value_float=EDGE), op.Constant(value_float=1 - EDGE)
    sides = op.Expand(op.CastLike(side, points), op.Shape(points))
    boxes = op.Concat(points, sides, axis=2)  # (B, S, 4)
    within = op.And(boxes > op.CastLike(least, points), boxes < op.CastLike(most, points))
    count = op.ReduceSum(op.CastLike(within, points), last, keepdims=0)  # (B, S)
    inside = op.And(count > op.CastLike(op.Constant(value_float=3.5), points), real)
    boxes = op.Where(op.Unsqueeze(inside, last), boxes, zero)
    return boxes, inside
