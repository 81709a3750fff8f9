"""Images in square patches (Dosovitskiy et al. 2021, 3.1)."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import PatchSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.norm import norm


@component("x")
def patch_embedding(spec: PatchSpec, g: Body, pixel_values: ir.Value) -> ir.Value:
    """Patches of images, projected, after learned tokens, plus positions (Dosovitskiy et al. 2021, 3.1).

    pixel_values (B,channels,height,width) -> x (B,S,W).
    """
    op = g.op
    bias = [g.weight("project.bias")] if spec.bias else []
    sides = {"strides": [spec.patch_size] * 2} | ({"pads": [spec.border] * 4} if spec.border else {})
    grid = op.Conv(pixel_values, g.weight("project.weight"), *bias, **sides, name="grid")
    flat = op.Reshape(grid, op.Constant(value_ints=[0, 0, -1]), name="flat")  # (B, W, S - tokens)
    patches = op.Transpose(flat, perm=[0, 2, 1], name="patches")
    shape = op.Concat(op.Shape(grid, end=1), op.Constant(value_ints=[1, 1]), axis=0, name="shape")
    tokens = [
        op.Expand(g.weight(f"tokens.{token}.weight"), shape) for token in range(spec.tokens)
    ]  # (B, 1, W) each
    position = g.weight("position.weight") if spec.positioned else None  # (S - registers, W)
    if position is not None and spec.any_size:
        position = g.call(_resized(spec, g.dtype), position, op.Shape(grid, start=2), name="position")
    if position is not None and spec.shared_position:
        start, first, axis = (op.Constant(value_ints=[number]) for number in (0, 1, 0))
        others = op.Slice(position, first, op.Shape(position, end=1), axis)
        position = op.Add(others, op.Slice(position, start, first, axis), name="position")
    detection = [op.Expand(g.weight("detection.weight"), shape)] if spec.detection_tokens else []
    parts = [*tokens, patches, *detection]
    words = op.Concat(*parts, axis=1, name="words") if len(parts) > 1 else patches
    if position is not None:
        words = op.Add(words, position, name="words")  # (B, S - registers, W)
    if spec.registers:
        start, first = op.Constant(value_ints=[0]), op.Constant(value_ints=[spec.tokens])
        end, axis = op.Shape(words, start=1, end=2), op.Constant(value_ints=[1])
        before, behind = op.Slice(words, start, first, axis), op.Slice(words, first, end, axis)
        registers = op.Expand(g.weight("registers.weight"), shape, name="registers")
        words = op.Concat(before, registers, behind, axis=1, name="words")  # (B, S, W)
    return words if spec.norm is None else norm(spec.norm, g / "norm", words)


@cache
def _interpolation(dtype: ir.DataType) -> OnnxFunction:
    """Matrix (new,old) of that type, whose product with `old` values is `new` ones, bicubic."""
    kind = int(dtype)

    @script(domain, default_opset=op)
    def interpolation(old, new):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        places = op.Range(zero, old, one)
        unit = op.Equal(op.Unsqueeze(places, op.Constant(value_ints=[1])), places)  # (old, old)
        image = op.Unsqueeze(op.Cast(unit, to=kind), op.Constant(value_ints=[0, 1]))
        size = op.Concat(op.Constant(value_ints=[1, 1]), new, op.Shape(unit, start=1), axis=0)
        resized = op.Resize(
            image,
            None,
            None,
            size,
            mode="cubic",
            coordinate_transformation_mode="half_pixel",
            cubic_coeff_a=-0.75,
        )
        matrix = op.Squeeze(resized, op.Constant(value_ints=[0, 1]))
        return matrix

    return interpolation


@cache
def _antialiased(dtype: ir.DataType) -> OnnxFunction:
    """As `_interpolation`; fewer new values than old ones are weighted means, without aliasing.

    The kernel is that of Keys 1981 with a = -0.5, as wide as a new value, and its weights add up to 1.
    """

    kind = int(dtype)

    @script(domain, default_opset=op)
    def antialiased(old, new):
        zero, one, half = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value=float32(0.5))
        size = op.Cast(old, to=1) / op.Cast(new, to=1)  # (1), of a new value in old ones
        centers = (op.Cast(op.Range(zero, op.Squeeze(new), one), to=1) + half) * size  # (new)
        places = op.Cast(op.Range(zero, old, one), to=1) + half  # (old)
        away = op.Abs(places - op.Unsqueeze(centers, op.Constant(value_ints=[1])))  # (new, old)
        x = away / op.Max(size, op.Constant(value=float32([1.0])))
        near = (x * 1.5 - 2.5) * x * x + 1.0
        far = ((x * -0.5 + 2.5) * x - 4.0) * x + 2.0
        share = op.Where(op.Less(x, op.Constant(value=float32(1.0))), near, far)
        share = op.Where(op.Less(x, op.Constant(value=float32(2.0))), share, op.Constant(value=float32(0.0)))
        total = op.ReduceSum(share, op.Constant(value_ints=[1]), keepdims=1)
        matrix = op.Cast(share / total, to=kind)
        return matrix

    return antialiased


@component("y")
def layer_position(spec: PatchSpec, g: Body, x: ir.Value, pixel_values: ir.Value) -> ir.Value:
    """A layer's own table of positions, added to its input (Fang et al. 2021, 3.3).

    x (B,S,W), pixel_values (B,channels,height,width) -> y (B,S,W).
    """
    op = g.op
    size = op.Div(op.Shape(pixel_values, start=2), op.Constant(value_ints=[spec.patch_size] * 2))
    return op.Add(x, g.call(_resized(spec, g.dtype), g.weight("weight"), size, name="position"))


def _resized(spec: PatchSpec, dtype: ir.DataType) -> OnnxFunction:
    return resized(spec.grid, dtype, spec.tokens, spec.detection_tokens > 0, spec.antialias)


@cache
def resized(
    grid: tuple[int, int], dtype: ir.DataType, tokens: int = 0, others: bool = False, antialias: bool = False
) -> OnnxFunction:
    """Positions of a `grid`, interpolated to a `size`; those of `tokens` before and `others` behind are kept.

    table (tokens + patches + others,W), size (2) -> (tokens + rows * columns + others,W), bicubic:
    a matrix that interpolates rows times the table, then one that interpolates columns.
    """
    (high, wide), end = grid, tokens + grid[0] * grid[1]
    interpolation = (_antialiased if antialias else _interpolation)(dtype)

    @script(domain, default_opset=op)
    def resized(table, size):
        start, first, last = (
            op.Constant(value_ints=[0]),
            op.Constant(value_ints=[tokens]),
            op.Constant(value_ints=[end]),
        )
        one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
        down = interpolation(op.Constant(value_int=high), op.Slice(size, start, one))  # (rows, high)
        across = interpolation(op.Constant(value_int=wide), op.Slice(size, one, two))  # (columns, wide)
        places = op.Reshape(op.Slice(table, first, last), op.Constant(value_ints=[high, -1]))
        width = op.Shape(table, start=1)
        columns = op.Concat(op.Constant(value_ints=[-1, wide]), width, axis=0)
        rows = op.Reshape(op.MatMul(down, places), columns)  # (rows, wide, W)
        fitting = op.Reshape(
            op.MatMul(across, rows), op.Concat(op.Constant(value_ints=[-1]), width, axis=0)
        )  # (rows * columns, W)
        if tokens:
            fitting = op.Concat(op.Slice(table, start, first), fitting, axis=0)
        if others:
            fitting = op.Concat(fitting, op.Slice(table, last, op.Shape(table, end=1)), axis=0)
        return fitting

    return resized


embedding = patch_embedding
