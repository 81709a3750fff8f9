"""Images of any size as grids of patches (Liu et al. 2021, 3.1)."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import PatchGridSpec, WindowedPositionsSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.inputs.patches import resized
from txgraphs.norm import norm


@component("x")
def patch_grid_embedding(spec: PatchGridSpec, g: Body, pixel_values: ir.Value) -> ir.Value:
    """Patches of images, projected and normalised, plus positions if there are any (Liu et al. 2021, 3.1).

    pixel_values (B,channels,height,width) -> x (B,R,C,W), rows and columns of patches.
    """
    op, strides = g.op, [spec.patch_size] * 2
    weights = g.weight("project.weight"), g.weight("project.bias")
    if spec.fixed and spec.kernel is None:
        grid = op.Conv(pixel_values, *weights, strides=strides, name="grid")  # (B, W, R, C)
    elif spec.kernel is None:
        pixels = g.call(whole_patches(spec.patch_size), pixel_values)
        grid = op.Conv(pixels, *weights, strides=strides, name="grid")  # (B, W, R, C)
    else:
        around = [spec.kernel // 2] * 4
        grid = op.Conv(pixel_values, *weights, pads=around, strides=strides, name="grid")
    x = op.Transpose(grid, perm=[0, 2, 3, 1])  # (B, R, C, W)
    x = x if spec.norm is None else norm(spec.norm, g / "norm", x)
    if spec.windowed is not None:
        x = op.Add(x, windowed_position(spec.windowed, spec.grid, g / "position"))
    elif spec.positioned:
        positions = g.weight("position.weight")
        if not spec.fixed:
            resized_positions = g.call(resized(spec.grid, g.dtype), positions, op.Shape(grid, start=2))
            positions = op.Reshape(resized_positions, op.Shape(x, start=1))
        x = op.Add(x, positions)  # (R, C, W)
    return x


@cache
def whole_patches(side: int) -> OnnxFunction:
    """pixel_values (B,channels,height,width) -> the same, with zeros to multiples of `side` pixels."""

    @script(domain, default_opset=op)
    def whole_patches(pixel_values):
        missing = op.Mod(op.Neg(op.Shape(pixel_values, start=2)), op.Constant(value_ints=[side]))  # (2)
        pads = op.Concat(op.Constant(value_ints=[0, 0, 0, 0, 0, 0]), missing, axis=0)
        pixels = op.Pad(pixel_values, pads)
        return pixels

    return whole_patches


@component("positions")
def windowed_position(spec: WindowedPositionsSpec, grid: tuple[int, int], g: Body) -> ir.Value:
    """A table interpolated to a grid, and one of a window repeated over it (Bolya et al. 2023, 4).

    -> positions (R,C,W).
    """
    op, (rows, columns) = g.op, grid
    flat = op.Reshape(g.weight("background.weight"), op.Constant(value_ints=[0, -1]))  # (W, rows * columns)
    table, size = op.Transpose(flat, perm=[1, 0]), op.Constant(value_ints=[rows, columns])
    background = g.call(resized((spec.rows, spec.columns), g.dtype), table, size)  # (R*C, W)
    repeats = op.Constant(value_ints=[rows // spec.window, columns // spec.window, 1])
    window = op.Tile(op.Transpose(g.weight("window.weight"), perm=[1, 2, 0]), repeats)  # (R, C, W)
    positions = op.Add(op.Reshape(background, op.Shape(window)), window)
    return positions


embedding = patch_grid_embedding
