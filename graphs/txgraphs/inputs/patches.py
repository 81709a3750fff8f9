"""Images in square patches (Dosovitskiy et al. 2021, 3.1)."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import PatchSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.norm import norm


@component("x")
def patch_embedding(spec: PatchSpec, g: Body, pixel_values: ir.Value) -> ir.Value:
    """Patches of images, projected, after learned tokens, plus positions (Dosovitskiy et al. 2021, 3.1).

    pixel_values (B,channels,height,width) -> x (B,S,W).
    """
    op = g.op
    bias = [g.weight("project.bias")] if spec.bias else []
    strides = [spec.patch_size] * 2
    grid = op.Conv(pixel_values, g.weight("project.weight"), *bias, strides=strides, name="grid")
    flat = op.Reshape(grid, op.Constant(value_ints=[0, 0, -1]), name="flat")  # (B, W, S - tokens)
    patches = op.Transpose(flat, perm=[0, 2, 1], name="patches")
    shape = op.Concat(op.Shape(grid, end=1), op.Constant(value_ints=[1, 1]), axis=0, name="shape")
    tokens = [
        op.Expand(g.weight(f"tokens.{token}.weight"), shape) for token in range(spec.tokens)
    ]  # (B, 1, W) each
    position = g.weight("position.weight") if spec.positioned else None  # (S - registers, W)
    if position is not None and spec.any_size:
        position = g.call(resized(spec.tokens, spec.grid, spec.antialias), position, grid, name="position")
    words = op.Concat(*tokens, patches, axis=1, name="words") if tokens else patches
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
def _interpolation() -> OnnxFunction:
    """Matrix (new,old), typed as `like`, whose product with `old` values is `new` ones, bicubic."""

    @script(domain, default_opset=op)
    def interpolation(old, new, like):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        places = op.Range(zero, old, one)
        unit = op.Equal(op.Unsqueeze(places, op.Constant(value_ints=[1])), places)  # (old, old)
        image = op.Unsqueeze(op.CastLike(unit, like), op.Constant(value_ints=[0, 1]))
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
def _antialiased() -> OnnxFunction:
    """As `_interpolation`; fewer new values than old ones are weighted means, without aliasing.

    The kernel is that of Keys 1981 with a = -0.5, as wide as a new value, and its weights add up to 1.
    """

    @script(domain, default_opset=op)
    def antialiased(old, new, like):
        zero, one, half = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_float=0.5)
        size = op.Cast(old, to=1) / op.Cast(new, to=1)  # (1), of a new value in old ones
        centers = (op.Cast(op.Range(zero, op.Squeeze(new), one), to=1) + half) * size  # (new)
        places = op.Cast(op.Range(zero, old, one), to=1) + half  # (old)
        away = op.Abs(places - op.Unsqueeze(centers, op.Constant(value_ints=[1])))  # (new, old)
        x = away / op.Max(size, op.Constant(value_floats=[1.0]))
        near = (x * 1.5 - 2.5) * x * x + 1.0
        far = ((x * -0.5 + 2.5) * x - 4.0) * x + 2.0
        share = op.Where(op.Less(x, op.Constant(value_float=1.0)), near, far)
        share = op.Where(op.Less(x, op.Constant(value_float=2.0)), share, op.Constant(value_float=0.0))
        total = op.ReduceSum(share, op.Constant(value_ints=[1]), keepdims=1)
        matrix = op.CastLike(share / total, like)
        return matrix

    return antialiased


@cache
def resized(tokens: int, size: tuple[int, int], antialias: bool = False) -> OnnxFunction:
    """The table of `tokens` and then `size` positions, interpolated to a grid.

    table (tokens + size[0] * size[1],W), grid (B,W,rows,columns) -> (tokens + rows * columns,W), bicubic. The
    table is not interpolated itself, but two identity matrices, whose rows are the weights of positions.
    """
    (high, wide), interpolation = size, _antialiased() if antialias else _interpolation()

    @script(domain, default_opset=op)
    def resized(table, grid):
        down = interpolation(
            op.Constant(value_int=high), op.Shape(grid, start=2, end=3), table
        )  # (rows, high)
        across = interpolation(op.Constant(value_int=wide), op.Shape(grid, start=3), table)  # (columns, wide)
        down = op.Unsqueeze(down, op.Constant(value_ints=[1, 3]))
        both = down * op.Unsqueeze(across, op.Constant(value_ints=[0, 2]))  # (rows, columns, high, wide)
        shares = op.Reshape(both, op.Constant(value_ints=[-1, high * wide]))
        start, first = op.Constant(value_ints=[0]), op.Constant(value_ints=[tokens])
        places = op.MatMul(shares, op.Slice(table, first, op.Shape(table, end=1)))  # (rows * columns, W)
        fitting = op.Concat(op.Slice(table, start, first), places, axis=0)
        return fitting

    return resized


embedding = patch_embedding
