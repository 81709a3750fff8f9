"""Stacks of queries that are anchor boxes."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import AnchorStackSpec
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.conditional_stack import conditional_layer, scaled_sines
from txgraphs.heads.boxes import perceptron
from txgraphs.inputs import signal_embedding
from txgraphs.norm import norm
from txgraphs.phrases import number_sines
from txgraphs.proposal_stack import box_change
from txgraphs.query_stack import query_layer, resized_mask, seen_places, sine_positions
from txgraphs.staged_stack import flat_grid


@component("sines", "positions")
def box_sines(width: int, g: Body, references: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The sinusoidal embedding of a box's centre, and a box's position (Liu et al. 2022, 4.3).

    references (B,Q,4) -> sines (B,Q,W) of the centre, row first, and positions (B,Q,W).
    """
    op = g.op
    exchanged = op.Gather(references, op.Constant(value_ints=[1, 0, 2, 3]), axis=2, name="row_first")
    both = g.call(number_sines(width // 2), exchanged)  # (B, Q, 2 * W)
    start, end, axis = (op.Constant(value_ints=[number]) for number in (0, width, 2))
    sines = op.Slice(both, start, end, axis, name="of_centre")
    return sines, perceptron(g, "layers", 2, both)


@component("y")
def modulated_sines(width: int, g: Body, x: ir.Value, sines: ir.Value, references: ir.Value) -> ir.Value:
    """The embedding of a centre times the predicted sides divided by the box's (Liu et al. 2022, 4.4).

    x and sines (B,Q,W), references (B,Q,4) -> sines (B,Q,W).
    """
    op, half, one = g.op, width // 2, _ints(g, 1, 1)
    _, sides = op.Split(references, _ints(g, 2, 2), axis=2, name=["centre", "sides"])
    shares = op.Div(op.Sigmoid(perceptron(g, "layers", 2, x)), sides)  # (B, Q, 2)
    across, down = op.Split(shares, one, axis=2, name=["across", "down"])
    row, column = op.Split(sines, _ints(g, half, half), axis=2, name=["row", "column"])
    y = op.Concat(op.Mul(row, down), op.Mul(column, across), axis=2)
    return y


def _ints(g: Body, *numbers: int) -> ir.Value:
    """A constant of whole numbers."""
    value: ir.Value = g.op.Constant(value_ints=[*numbers])
    return value


@component("queries", "references")
def anchor_queries(spec: AnchorStackSpec, g: Body, image: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Learned boxes, and learned vectors of patterns or zeros (Liu et al. 2022, 4.1).

    image (B,S,W) -> queries (B,Q,W), references (B,Q,4).
    """
    op, width, rows = g.op, spec.hidden_size, g.op.Shape(image, end=1)

    def of_rows(x: ir.Value, size: int) -> ir.Value:
        """x (Q,n) for each row: (B,Q,n)."""
        shape = op.Concat(rows, _ints(g, spec.queries, size), axis=0)
        result: ir.Value = op.Expand(x, shape)
        return result

    boxes = op.Sigmoid(g.weight("boxes"))  # (boxes, 4)
    if not spec.patterns:
        zero = op.CastLike(op.Constant(value_float=0.0), image)
        return of_rows(zero, width), of_rows(boxes, 4)
    shape = _ints(g, spec.patterns, spec.boxes, width)
    spread = op.Expand(op.Unsqueeze(g.weight("patterns"), _ints(g, 1)), shape)  # (patterns, boxes, W)
    queries = of_rows(op.Reshape(spread, _ints(g, spec.queries, width)), width)
    references = of_rows(op.Tile(boxes, _ints(g, spec.patterns, 1)), 4)
    return queries, references


def anchor_encoder(
    spec: AnchorStackSpec, graph: Graph, inputs: dict[str, ir.Value], stack: str = "encoder"
) -> tuple[ir.Value, ir.Value]:
    """Layers over an image's map, and anchor boxes that read it; the twin of AnchorEncoder.

    pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries (B,Q,W), boxes (B,Q,4).
    """
    width, last = spec.hidden_size, spec.objects.num_layers - 1
    grid, _ = signal_embedding(spec, graph / f"{stack}.embedding", inputs[names.PIXEL_VALUES])
    real = graph.call(resized_mask, inputs[names.PIXEL_MASK], grid, name="real")  # (B, R, C)
    positions = graph.call(sine_positions(width, graph.dtype, spec.temperature), real, name="positions")
    x = graph.call(flat_grid, grid, name="places")  # (B, S, W)
    mask = graph.call(seen_places, real, x, name="mask")
    for number in range(spec.cells.num_layers):
        scaled = scaled_sines(graph / f"{stack}.cell_scale", x, positions)
        x = query_layer(spec.block, spec.cells, graph / f"{stack}.layers.{number}", x, scaled, mask)
    image = norm(spec.block.norm, graph / f"{stack}.layers_norm", x) if spec.cells_norm else x
    y, references = anchor_queries(spec, graph / f"{stack}.queries", image)
    mask = graph.call(seen_places, real, y, name="query_mask")
    for number in range(spec.objects.num_layers):
        sines, placed = box_sines(width, graph / f"{stack}.query_position", references)
        scaled = scaled_sines(graph / f"{stack}.query_scale", y, sines) if number else sines
        turned = modulated_sines(width, graph / f"{stack}.query_sides", y, scaled, references)
        layer = spec.block, spec.objects, spec.placed or not number
        place = graph / f"{stack}.query_layers.{number}"
        y = conditional_layer(*layer, place, y, placed, turned, image, positions, mask)
        if number != last:
            references = box_change(spec.box_layers, graph / f"{stack}.boxes", y, references)
    return norm(spec.block.norm, graph / f"{stack}.query_norm", y), references
