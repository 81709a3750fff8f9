"""Stacks of queries over an image."""

import math
from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.contracts import names
from txexport.spec import FeedForwardSpec, QueryBlockSpec, QueryLayersSpec, QueryStackSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs._graph import Graph
from txgraphs.feedforward import feed_forward
from txgraphs.inputs import signal_embedding
from txgraphs.inputs.resnet import resnet_maps
from txgraphs.norm import norm
from txgraphs.separate_attention import separate_attention
from txgraphs.stack import Given
from txgraphs.staged_stack import flat_grid

TEMPERATURE, EPS = 10000, 1e-6  # of sines; what a divisor of 0 becomes


@component("y")
def query_layer(
    spec: QueryBlockSpec,
    layers: QueryLayersSpec,
    g: Body,
    x: ir.Value,
    positions: ir.Value,
    mask: ir.Value | None,
    image: ir.Value | None = None,
    image_positions: ir.Value | None = None,
) -> ir.Value:
    """Attention to vectors, to a map if there is one, and a network (Carion et al. 2020, A.3).

    x and positions (B,S,W), a map and its positions (B,T,W), mask of what it attends to -> y (B,S,W). The
    mask is (B,1,S,S), or with a map (B,1,S,T).
    """
    op, sizes = g.op, (layers.num_heads, spec.hidden_size)

    def before(name: str, x: ir.Value) -> ir.Value:
        return norm(spec.norm, g / f"{name}_norm", x) if spec.pre_norm else x

    def after(name: str, x: ir.Value, read: ir.Value) -> ir.Value:
        total = op.Add(x, read)
        return total if spec.pre_norm else norm(spec.norm, g / f"{name}_norm", total)

    def of_image(x: ir.Value) -> ir.Value:
        if image is None:
            return x
        query = op.Add(before("cross_attention", x), positions)
        placed = op.Add(image, image_positions)
        read = separate_attention(*sizes, g / "cross_attention", query, placed, image, mask)
        return after("cross_attention", x, read)

    if spec.crossed_first:
        x = of_image(x)
    inner = before("attention", x)
    query, of_itself = op.Add(inner, positions), mask if image is None else None
    x = after("attention", x, separate_attention(*sizes, g / "attention", query, query, inner, of_itself))
    if not spec.crossed_first:
        x = of_image(x)
    network = FeedForwardSpec(spec.hidden_size, layers.intermediate_size, spec.activation)
    inner = feed_forward(network, g / "feed_forward", before("feed_forward", x))
    y = after("feed_forward", x, inner)
    return y


def query_encoder(
    spec: QueryStackSpec, graph: Graph, inputs: dict[str, ir.Value], outputs: Given, stack: str = "encoder"
) -> ir.Value:
    """An image's map through layers, and queries that read it; the twin of txmodels' QueryEncoder.

    pixel_values (B,channels,height,width), pixel_mask (B,h,w) -> queries (B,Q,W). If a head reads maps,
    `outputs` is filled with those of the network's stages but the last, then with `grid` (B,R,C,W), the last
    one, `image` (B,S,W) after its layers, and `real` (B,R,C).
    """
    place, pixels = graph / f"{stack}.embedding", inputs[names.PIXEL_VALUES]
    if outputs.maps is None:
        grid, _ = signal_embedding(spec, place, pixels)
    else:
        grid, *finer = resnet_maps(spec.embedding, place, pixels)
        for one in finer:
            outputs.stage(one)
    real = graph.call(resized_mask, inputs[names.PIXEL_MASK], grid, name="real")  # (B, R, C)
    positions = graph.call(sine_positions(spec.hidden_size, graph.dtype), real, name="positions")
    x = graph.call(flat_grid, grid, name="places")  # (B, S, W)
    mask = graph.call(seen_places, real, x, name="mask")
    for number in range(spec.cells.num_layers):
        place = graph / f"{stack}.layers.{number}"
        x = query_layer(spec.block, spec.cells, place, x, positions, mask)
    image = norm(spec.norm, graph / f"{stack}.layers_norm", x) if spec.pre_norm else x
    weight = (graph / f"{stack}.queries").weight("weight")
    learned, y = graph.call(first_queries, weight, image, name="queries")  # (B, Q, W)
    mask = graph.call(seen_places, real, y, name="query_mask")
    for number in range(spec.objects.num_layers):
        place = graph / f"{stack}.query_layers.{number}"
        y = query_layer(spec.block, spec.objects, place, y, learned, mask, image, positions)
    if outputs.maps is not None:
        outputs.maps |= {"grid": grid, "image": image, "real": real}
    return norm(spec.norm, graph / f"{stack}.query_norm", y)


@script(domain, default_opset=op)
def resized_mask(pixel_mask, grid):
    """pixel_mask (B,h,w), grid (B,R,C,W) -> which places are of the image (B,R,C), by the nearest pixel."""
    numbers = op.Unsqueeze(op.CastLike(pixel_mask, grid), op.Constant(value_ints=[1]))
    sizes = op.Concat(op.Shape(numbers, end=2), op.Shape(grid, start=1, end=3), axis=0)
    nearest = op.Resize(
        numbers,
        None,
        None,
        sizes,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    real = op.Cast(op.Squeeze(nearest, op.Constant(value_ints=[1])), to=9)
    return real


@script(domain, default_opset=op)
def seen_places(real, x):
    """real (B,R,C), x (B,S,W) -> mask (B,1,S,R*C) of the places that each vector sees."""
    flat = op.Reshape(real, op.Constant(value_ints=[0, 1, 1, -1]))
    one = op.Constant(value_ints=[1])
    shape = op.Concat(one, one, op.Shape(x, start=1, end=2), one, axis=0)
    mask = op.Expand(flat, shape)
    return mask


@script(domain, default_opset=op)
def of_every_row(weight, x):
    """weight (Q,W), x (B,...) -> the weight for each row (B,Q,W)."""
    y = op.Expand(weight, op.Concat(op.Shape(x, end=1), op.Shape(weight), axis=0))
    return y


@script(domain, default_opset=op)
def first_queries(weight, image):
    """weight (Q,W), image (B,S,W) -> the learned positions of queries and their first values, 0, (B,Q,W)."""
    shape = op.Concat(op.Shape(image, end=1), op.Shape(weight), axis=0)
    learned = op.Expand(weight, shape)
    values = op.Expand(op.CastLike(op.Constant(value_float=0.0), weight), shape)
    return learned, values


@cache
def sine_positions(
    size: int, dtype: ir.DataType, temperature: float = TEMPERATURE, start: float = 1.0
) -> OnnxFunction:
    """Which places are of the image (B,R,C) -> sines and cosines of rows and columns (B,S,size).

    Rows and columns are counted from `start` within the image, as shares of 2 pi (Carion et al. 2020, A.4).
    As angles of tokens, these need float32.
    """
    periods, shifted = [temperature ** (2 * step / size) for step in range(0, size // 2, 2)], start != 1
    kind, narrow = int(dtype), dtype != ir.DataType.FLOAT

    @script(domain, default_opset=op)
    def sine_positions(real):
        count = op.CastLike(real, op.Constant(value=float32(1.0)))
        turn, eps = op.Constant(value=float32(2 * math.pi)), op.Constant(value=float32(EPS))
        one, two, last = op.Constant(value_int=1), op.Constant(value_int=2), op.Constant(value_ints=[-1])
        rows, columns = op.CumSum(count, one), op.CumSum(count, two)
        last_row, last_column = op.Gather(rows, last, axis=1), op.Gather(columns, last, axis=2)
        if shifted:
            less = count * op.Constant(value=float32(1 - start))  # of places of the image, not of padding
            rows, columns = rows - less, columns - less
        down, across = rows / (last_row + eps) * turn, columns / (last_column + eps) * turn
        every = op.Constant(value=float32(periods))
        turns_down, turns_across = op.Unsqueeze(down, last) / every, op.Unsqueeze(across, last) / every
        pairs_down = op.Concat(
            op.Unsqueeze(op.Sin(turns_down), last), op.Unsqueeze(op.Cos(turns_down), last), axis=-1
        )
        pairs_across = op.Concat(
            op.Unsqueeze(op.Sin(turns_across), last), op.Unsqueeze(op.Cos(turns_across), last), axis=-1
        )
        both = op.Concat(pairs_down, pairs_across, axis=3)  # (B, R, C, size / 2, 2)
        shape = op.Concat(op.Shape(real, end=1), op.Constant(value_ints=[-1, size]), axis=0)
        positions = op.Reshape(both, shape)
        if narrow:
            positions = op.Cast(positions, to=kind)
        return positions

    return sine_positions
