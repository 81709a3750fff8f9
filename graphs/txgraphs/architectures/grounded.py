"""Objects in images that the phrases of one text describe (Liu et al. 2023)."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names, roles
from txexport.spec import Cache, GroundedSpec
from txgraphs import domain, op
from txgraphs._graph import Graph
from txgraphs.architectures._model import Build, Signatures, Values
from txgraphs.block import encoder_block
from txgraphs.grounded_layer import grounded_layer, object_layer
from txgraphs.grounded_stack import (
    SIDE,
    box_move,
    by_level,
    first_boxes,
    flat_mask,
    level_positions,
    map_level,
    place_boxes,
    place_points,
    placed,
    token_scores,
)
from txgraphs.linear import linear
from txgraphs.mask import padding_mask
from txgraphs.norm import norm
from txgraphs.phrases import number_sines, phrases
from txgraphs.query_stack import resized_mask, sine_positions
from txgraphs.stack import Given, embedded
from txgraphs.staged_stack import flat_grid, staged_encoder


def grounded_models(spec: GroundedSpec, cache: Cache, signatures: Signatures, new: Build) -> dict[str, Graph]:
    """The only graph; twin of txmodels' GroundedModel."""
    graph = new(roles.MODEL)
    inputs = graph.declare(signatures[roles.MODEL])
    graph.add_outputs(_described(spec, graph, inputs))
    return {roles.MODEL: graph}


def _described(spec: GroundedSpec, graph: Graph, inputs: Values) -> Values:
    """Texts (B,S), pixels (B,channels,height,width), pixel_mask (B,h,w) -> logits and boxes."""
    op = graph.op
    tokens = op.Cast(inputs[names.ATTENTION_MASK], to=9)
    mask, order = graph.call(phrases(spec.separators), inputs[names.INPUT_IDS], name="phrases")
    x = embedded(spec.text, graph, "text", inputs, order)  # (B, S, text's width)
    for number, block in enumerate(spec.text.layers):
        context = {"mask": mask, "cos": None, "sin": None}
        (x,) = encoder_block(block, False, graph / f"text.layers.{number}", x, **context)
    text = linear(True, graph / "text_projection", x)  # (B, S, W)
    column = graph.call(text_numbers, order, text, name="numbers")  # (B, S, 1)
    sines = graph.call(number_sines(spec.hidden_size), column, name="sines")  # (B, S, W)
    maps = _levels(spec, graph, inputs[names.PIXEL_VALUES])
    real = [
        graph.call(resized_mask, inputs[names.PIXEL_MASK], x, name=f"real.{level}")
        for level, x in enumerate(maps)
    ]  # (B, R, C)
    turning = sine_positions(spec.hidden_size, graph.dtype, spec.temperature)
    every = (graph / "level_embed").weight("weight")
    positions = op.Concat(
        *(
            graph.call(
                placed, graph.call(turning, one, name=f"positions.{level}"), every, number, name="placed"
            )
            for level, (one, number) in enumerate(zip(real, _numbers(graph, len(real)), strict=True))
        ),
        axis=1,
    )  # (B, P, W)
    sizes = {str(level): op.Shape(x, start=1, end=3) for level, x in enumerate(maps)}
    flat = [graph.call(flat_grid, x, name=f"places.{level}") for level, x in enumerate(maps)]
    image = op.Concat(*flat, axis=1)  # (B, P, W)
    pairs = [graph.call(place_points, one, text, name=f"points.{level}") for level, one in enumerate(real)]
    points, shares = zip(*pairs, strict=True)
    share = op.Concat(*shares, axis=1)  # (B, L, 2)
    references = graph.call(by_level, op.Concat(*points, axis=1), share, name="references")  # (B, P, L, 2)
    flat_real = [graph.call(flat_mask, one, name=f"flat_real.{level}") for level, one in enumerate(real)]
    real_places = op.Concat(*flat_real, axis=1)  # (B, P)
    for number in range(spec.cells.num_layers):
        place = graph / f"layers.{number}"
        image, text = grounded_layer(
            spec, place, image, text, positions, sines, references, sizes, real_places, tokens, mask
        )
    sides = [op.Constant(value_float=SIDE * 2**level) for level in range(len(maps))]
    first = [
        graph.call(place_boxes, *one, name=f"anchors.{level}")
        for level, one in enumerate(zip(points, flat_real, sides, strict=True))
    ]
    anchors, inside = (op.Concat(*parts, axis=1) for parts in zip(*first, strict=True))
    boxes = first_boxes(spec, graph / "first_boxes", image, text, anchors, inside, tokens)
    y = graph.call(for_rows, (graph / "queries").weight("weight"), image, name="first_queries")  # (B, Q, W)
    four = op.Concat(share, share, axis=2)  # (B, L, 4)
    seen = graph.call(padding_mask, inputs[names.ATTENTION_MASK], y, name="seen")
    last = spec.objects.num_layers - 1
    for number in range(spec.objects.num_layers):
        near = graph.call(by_level, boxes, four, name="near")  # (B, Q, L, 4)
        placed_queries = level_positions(spec.hidden_size, graph / "query_position", near)
        place = graph / f"query_layers.{number}"
        y = object_layer(spec, place, y, placed_queries, near, image, text, sizes, real_places, seen)
        if number < last:
            move = graph / f"boxes.{0 if spec.shared_boxes else number}"
            boxes = box_move(spec.box_layers, move, y, boxes)
    normed = norm(spec.norm, graph / "query_norm", y)
    logits = graph.call(token_scores(spec.text_length, graph.dtype), normed, text, tokens, name="scores")
    move = graph / f"boxes.{0 if spec.shared_boxes else last}"
    return {names.LOGITS: logits, names.PRED_BOXES: box_move(spec.box_layers, move, normed, boxes)}


def _levels(spec: GroundedSpec, graph: Graph, pixel_values: ir.Value) -> list[ir.Value]:
    """pixel_values (B,channels,height,width) -> maps (B,R,C,W), the finest first."""
    states = Given(maps={})
    staged_encoder(spec.vision, graph, pixel_values, states, "vision")
    assert states.maps is not None
    stages = zip(states.maps.values(), spec.vision.stages, strict=True)
    read = [x for x, stage in stages if stage.map_norm is not None]
    maps: list[ir.Value] = []
    for level in range(spec.levels):
        source = read[min(level, len(read) - 1)] if level <= len(read) else maps[-1]
        maps.append(map_level(spec.map_norm, level >= len(read), graph / f"maps.{level}", source))
    return maps


def _numbers(graph: Graph, count: int) -> list[ir.Value]:
    """The integers below `count`."""
    return [graph.op.Constant(value_int=number) for number in range(count)]


@script(domain, default_opset=op)
def text_numbers(positions, like):
    """positions (B,S) -> numbers (B,S,1) of the type of `like`."""
    y = op.CastLike(op.Unsqueeze(positions, op.Constant(value_ints=[2])), like)
    return y


@script(domain, default_opset=op)
def for_rows(weight, image):
    """weight (Q,W), image (B,P,W) -> the weight for every row (B,Q,W)."""
    y = op.Expand(weight, op.Concat(op.Shape(image, end=1), op.Shape(weight), axis=0))
    return y
