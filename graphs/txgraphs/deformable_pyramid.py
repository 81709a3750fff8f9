"""Maps of several resolutions whose places attend to points of one another, and a finer one."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import (
    DeformableAttentionSpec,
    DeformablePyramidSpec,
    FeedForwardSpec,
    QueryBlockSpec,
    QueryLayersSpec,
)
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.deformable_attention import deformable_attention
from txgraphs.feedforward import feed_forward
from txgraphs.heads.masks import every_place
from txgraphs.heads.segments import bilinear
from txgraphs.norm import norm
from txgraphs.pixel_pyramid import normed_convolution
from txgraphs.query_stack import sine_positions
from txgraphs.staged_stack import flat_grid


@component("y")
def deformable_layer(
    spec: QueryBlockSpec,
    layers: QueryLayersSpec,
    attention: DeformableAttentionSpec,
    g: Body,
    x: ir.Value,
    positions: ir.Value,
    references: ir.Value,
    sizes: dict[str, ir.Value],
    **masks: ir.Value,
) -> ir.Value:
    """Attention of places to points of all maps, and a network (Zhu et al. 2021, 4.2).

    x and positions (B,S,W), points (1,S,2), rows and columns of each map -> y (B,S,W). Of points of each
    level there are (B,S,L,2). Values are zeros where the mask `real` (B,S) is false.
    """
    op = g.op
    place, query = g / "attention", op.Add(x, positions)
    read = deformable_attention(attention, place, query, references, x, sizes, **masks)
    x = norm(spec.norm, g / "attention_norm", op.Add(x, read))
    network = FeedForwardSpec(spec.hidden_size, layers.intermediate_size, spec.activation)
    total = op.Add(x, feed_forward(network, g / "feed_forward", x))
    y = norm(spec.norm, g / "feed_forward_norm", total)
    return y


@component("pixels", "level_0", "level_1", "level_2", "level_3", "level_4", "level_5", "level_6")
def deformable_pyramid(
    spec: DeformablePyramidSpec, g: Body, maps: dict[str, ir.Value]
) -> tuple[ir.Value, ...]:
    """Coarser maps through layers, and the finest with the last of them (Cheng et al. 2022, 3.2.2).

    maps (B,channels,R,C), the finest first -> pixels (B,size,R,C), maps (B,W,r,c). Those returned have the
    coarsest first.
    """
    op = g.op
    finest, *coarser = maps.values()
    vectors, positions, references, sizes = [], [], [], {}
    learned = g.weight("levels.weight")  # (L, W)
    for number, coarse in enumerate(reversed(coarser)):
        projected = normed_convolution(1, spec.norm, True, g / f"projects.{number}", coarse)  # (B, W, r, c)
        grid = op.Transpose(projected, perm=[0, 2, 3, 1])  # (B, r, c, W)
        placed = g.call(sine_positions(spec.hidden_size, g.dtype), g.call(every_place, grid))  # (B, s, W)
        positions.append(op.Add(placed, op.Gather(learned, op.Constant(value_ints=[number]))))
        vectors.append(g.call(flat_grid, grid))
        references.append(g.call(centres, grid))
        sizes[str(number)] = op.Shape(grid, start=1, end=3)
    x, every = op.Concat(*vectors, axis=1), op.Concat(*positions, axis=1)  # (B, S, W)
    points = op.Concat(*references, axis=1)  # (1, S, 2)
    for number in range(spec.layers.num_layers):
        place = g / f"layers.{number}"
        x = deformable_layer(spec.block, spec.layers, spec.attention, place, x, every, points, sizes)
    turned, levels, start = op.Transpose(x, perm=[0, 2, 1]), [], op.Constant(value_ints=[0])  # (B, W, S)
    for size in sizes.values():
        end = op.Add(start, op.ReduceProd(size, keepdims=1))
        part = op.Slice(turned, start, end, op.Constant(value_ints=[2]))
        shape = op.Concat(op.Constant(value_ints=[0, 0]), size, axis=0)
        levels.append(op.Reshape(part, shape))
        start = end
    side = normed_convolution(1, spec.norm, False, g / "side", finest)  # (B, W, R, C)
    total = op.Add(side, g.call(bilinear, levels[-1], op.Shape(side, start=2)))
    convolved = op.Relu(normed_convolution(3, spec.norm, False, g / "convolution", total))
    pixels = op.Conv(convolved, g.weight("project.weight"), g.weight("project.bias"), name="projected")
    return pixels, *levels


@script(domain, default_opset=op)
def centres(grid):
    """grid (B,R,C,W) -> the centres (1,R*C,2) of places: columns and rows as shares of the grid's."""
    zero, one, half = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_float=0.5)
    height, width = op.Shape(grid, start=1, end=2), op.Shape(grid, start=2, end=3)
    rows = op.CastLike(op.Range(zero, op.Squeeze(height), one), grid) + op.CastLike(half, grid)
    columns = op.CastLike(op.Range(zero, op.Squeeze(width), one), grid) + op.CastLike(half, grid)
    size = op.Concat(height, width, axis=0)
    down = op.Expand(op.Unsqueeze(rows / op.CastLike(height, grid), op.Constant(value_ints=[1])), size)
    across = op.Expand(op.Unsqueeze(columns / op.CastLike(width, grid), op.Constant(value_ints=[0])), size)
    last = op.Constant(value_ints=[2])
    pairs = op.Concat(op.Unsqueeze(across, last), op.Unsqueeze(down, last), axis=2)  # (R, C, 2)
    points = op.Reshape(pairs, op.Constant(value_ints=[1, -1, 2]))
    return points
