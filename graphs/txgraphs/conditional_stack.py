"""Stacks of learned queries that read an image near points."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import ConditionalStackSpec, FeedForwardSpec, QueryBlockSpec, QueryLayersSpec
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.attention import merge, split
from txgraphs.feedforward import feed_forward
from txgraphs.heads.boxes import perceptron
from txgraphs.inputs import signal_embedding
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.phrases import number_sines
from txgraphs.query_stack import first_queries, query_layer, resized_mask, seen_places, sine_positions
from txgraphs.scaled_dot_product_attention import own_mix, plain_mix
from txgraphs.staged_stack import flat_grid


@component("y")
def mutual_attention(width: int, heads: int, g: Body, x: ir.Value, positions: ir.Value) -> ir.Value:
    """Attention of vectors to one another, with projections of positions (Meng et al. 2021, 3.2).

    x and positions (B,Q,W) -> y (B,Q,W).
    """
    op, size = g.op, width // heads
    shape = op.Constant(value_ints=[0, 0, heads, size])
    query = op.Add(linear(True, g / "q", x), linear(True, g / "q_position", positions))
    key = op.Add(linear(True, g / "k", x), linear(True, g / "k_position", positions))
    q, k = g.call(split, query, shape), g.call(split, key, shape)  # (B, N, Q, H)
    v = g.call(split, linear(True, g / "v", x), shape)
    y = linear(True, g / "o", g.call(merge, g.call(plain_mix, q, k, v, scale=size**-0.5)))
    return y


@component("y")
def conditional_attention(
    width: int,
    heads: int,
    first: bool,
    g: Body,
    x: ir.Value,
    positions: ir.Value,
    sines: ir.Value,
    image: ir.Value,
    image_positions: ir.Value,
    mask: ir.Value,
) -> ir.Value:
    """Attention to a map by scores of contents and scores of positions (Meng et al. 2021, 3.2).

    x, positions and sines (B,Q,W), a map and its positions (B,S,W), mask (B,1,Q,S) -> y (B,Q,W). In the
    `first` layer, contents have positions too.
    """
    op, size = g.op, width // heads
    shape = op.Constant(value_ints=[0, 0, heads, size])
    q, k = linear(True, g / "q", x), linear(True, g / "k", image)
    placed = linear(True, g / "k_position", image_positions)
    if first:
        q, k = op.Add(q, linear(True, g / "q_position", positions)), op.Add(k, placed)
    parts = q, k, linear(True, g / "q_sine", sines), placed, linear(True, g / "v", image)
    query, key, sine, place, v = (g.call(split, one, shape) for one in parts)
    query, key = op.Concat(query, sine, axis=3), op.Concat(key, place, axis=3)  # (B, N, Q or S, 2 * H)
    mixed = g.call(own_mix, query, key, v, mask, scale=(2 * size) ** -0.5)
    y = linear(True, g / "o", g.call(merge, mixed))
    return y


@component("y")
def conditional_layer(
    spec: QueryBlockSpec,
    layers: QueryLayersSpec,
    first: bool,
    g: Body,
    x: ir.Value,
    positions: ir.Value,
    sines: ir.Value,
    image: ir.Value,
    image_positions: ir.Value,
    mask: ir.Value,
) -> ir.Value:
    """Attention to one another and to a map, and a network (Meng et al. 2021, 3.1).

    x, positions and sines (B,Q,W), a map and its positions (B,S,W), mask (B,1,Q,S) -> y (B,Q,W).
    """
    op, width, heads = g.op, spec.hidden_size, layers.num_heads
    mixed = mutual_attention(width, heads, g / "attention", x, positions)
    x = norm(spec.norm, g / "attention_norm", op.Add(x, mixed))
    place = g / "cross_attention"
    read = conditional_attention(
        width, heads, first, place, x, positions, sines, image, image_positions, mask
    )
    x = norm(spec.norm, g / "cross_attention_norm", op.Add(x, read))
    network = FeedForwardSpec(width, layers.intermediate_size, spec.activation)
    y = norm(spec.norm, g / "feed_forward_norm", op.Add(x, feed_forward(network, g / "feed_forward", x)))
    return y


@component("sines", "references")
def point_sines(width: int, g: Body, positions: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Points of learned queries, and their sines (Meng et al. 2021, 3.2).

    positions (B,Q,W) -> sines (B,Q,W), boxes (B,Q,4) of points, whose sides are halves.
    """
    op = g.op
    points = op.Sigmoid(perceptron(g, "layers", 2, positions))  # (B, Q, 2)
    turned = op.Gather(points, op.Constant(value_ints=[1, 0]), axis=2)
    sines = g.call(number_sines(width // 2), turned)
    half = op.CastLike(op.Constant(value_float=0.5), points)
    references = op.Concat(points, op.Expand(half, op.Shape(points)), axis=2)  # (B, Q, 4)
    return sines, references


@component("y")
def scaled_sines(g: Body, x: ir.Value, sines: ir.Value) -> ir.Value:
    """Sines of points as queries scale them (Meng et al. 2021, 3.2).

    x and sines (B,Q,W) -> sines (B,Q,W) with what x gives as factors.
    """
    y = g.op.Mul(sines, perceptron(g, "layers", 2, x))
    return y


def conditional_encoder(
    spec: ConditionalStackSpec, graph: Graph, inputs: dict[str, ir.Value], stack: str = "encoder"
) -> tuple[ir.Value, ir.Value]:
    """An image's map through layers, and queries that read it near points; the twin of ConditionalEncoder.

    pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries (B,Q,W), boxes (B,Q,4).
    """
    grid, _ = signal_embedding(spec, graph / f"{stack}.embedding", inputs[names.PIXEL_VALUES])
    real = graph.call(resized_mask, inputs[names.PIXEL_MASK], grid, name="real")  # (B, R, C)
    positions = graph.call(sine_positions(spec.hidden_size, graph.dtype), real, name="positions")
    x = graph.call(flat_grid, grid, name="places")  # (B, S, W)
    mask = graph.call(seen_places, real, x, name="mask")
    for number in range(spec.cells.num_layers):
        place = graph / f"{stack}.layers.{number}"
        x = query_layer(spec.block, spec.cells, place, x, positions, mask)
    weight = (graph / f"{stack}.queries").weight("weight")
    learned, y = graph.call(first_queries, weight, x, name="queries")  # (B, Q, W)
    sines, references = point_sines(spec.hidden_size, graph / f"{stack}.query_position", learned)
    mask = graph.call(seen_places, real, y, name="query_mask")
    for number in range(spec.objects.num_layers):
        turned = scaled_sines(graph / f"{stack}.query_scale", y, sines) if number else sines
        layer, place = (spec.block, spec.objects, not number), graph / f"{stack}.query_layers.{number}"
        y = conditional_layer(*layer, place, y, learned, turned, x, positions, mask)
    return norm(spec.block.norm, graph / f"{stack}.query_norm", y), references
