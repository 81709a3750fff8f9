"""A pyramid of maps of layers or stages, added from coarse to fine; R rows and C columns of patches."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import Activation, MapPyramidSpec, PyramidSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.batch_norm import batch_norm
from txgraphs.bilinear import bilinear
from txgraphs.convolution_norm import convolution_norm


@component("y")
def finest(spec: PyramidSpec, g: Body, x: ir.Value) -> ir.Value:
    """Each place of a map becomes sixteen by two transposed convolutions (Bao et al. 2022, B).

    x (B,W,R,C) -> y (B,W,4R,4C).
    """
    first = batch_norm(spec.norm, g / "norm", _doubled(g, "first", x))  # (B, W, 2R, 2C)
    y = _doubled(g, "second", g.call(activation(Activation.GELU), first))
    return y


@component("joint")
def pyramid(spec: PyramidSpec, g: Body, states: dict[str, ir.Value], grid: ir.Value) -> ir.Value:
    """The joint map of a pyramid of four layers (Xiao et al. 2018, 3.1).

    states (B,S,W), grid (2): R and C -> joint (B,W,4R,4C).
    """
    return _joined(spec, g, _rescaled(spec, g, states, grid))


@component("joint")
def map_pyramid(spec: MapPyramidSpec, g: Body, maps: dict[str, ir.Value]) -> ir.Value:
    """The joint map of a pyramid of maps, the finest first (Xiao et al. 2018, 3.1).

    maps (B,size,r,c) -> joint (B,W,R,C), of the places of the first one.
    """
    return _joined(spec, g, [*maps.values()])


def _joined(spec: PyramidSpec | MapPyramidSpec, g: Body, maps: list[ir.Value]) -> ir.Value:
    """maps (B,size,r,c) -> joint (B,W,R,C), of the places of the first one."""
    op = g.op
    sizes, last = [op.Shape(one, start=2) for one in maps], len(maps) - 1
    levels = [_normed(spec, 1, g, f"laterals.{level}", maps[level]) for level in range(last)]
    levels.append(_pooled(spec, g, maps[last], sizes[last]))
    for level in range(last, 0, -1):
        levels[level - 1] = op.Add(levels[level - 1], g.call(bilinear, levels[level], sizes[level - 1]))
    outputs = [_normed(spec, 3, g, f"outputs.{level}", levels[level]) for level in range(last)]
    coarser = [g.call(bilinear, x, sizes[0]) for x in (*outputs[1:], levels[last])]
    joint = _normed(spec, 3, g, "joint", op.Concat(outputs[0], *coarser, axis=1))
    return joint


def _rescaled(spec: PyramidSpec, g: Body, states: dict[str, ir.Value], grid: ir.Value) -> list[ir.Value]:
    """Maps (B,W,4R,4C), (B,W,2R,2C), (B,W,R,C) and (B,W,R/2,C/2) of states (B,S,W)."""
    op = g.op
    first, axis = op.Constant(value_ints=[spec.tokens]), op.Constant(value_ints=[1])
    maps = []
    for state in states.values():
        patches = op.Slice(state, first, op.Shape(state, start=1, end=2), axis)
        channels = op.Transpose(patches, perm=[0, 2, 1], name="patches")  # (B, W, R * C)
        shape = op.Concat(op.Shape(channels, end=2), grid, axis=0)
        maps.append(op.Reshape(channels, shape))  # (B, W, R, C)
    coarsest = op.MaxPool(maps[3], kernel_shape=[2, 2], strides=[2, 2], name="coarsest")
    return [finest(spec, g / "finest", maps[0]), _doubled(g, "finer", maps[1]), maps[2], coarsest]


def _doubled(g: Body, part: str, x: ir.Value) -> ir.Value:
    """x (B,W,r,c) -> (B,W,2r,2c), each place made four by a transposed convolution."""
    weights = g.weight(f"{part}.weight"), g.weight(f"{part}.bias")
    y: ir.Value = g.op.ConvTranspose(x, *weights, kernel_shape=[2, 2], strides=[2, 2], name=part)
    return y


def _normed(spec: PyramidSpec | MapPyramidSpec, kernel: int, g: Body, part: str, x: ir.Value) -> ir.Value:
    """x (B,inputs,r,c) -> (B,W,r,c): a convolution, a batch norm and a ReLU."""
    y: ir.Value = g.op.Relu(convolution_norm(spec.norm.size, kernel, 1, spec.norm.eps, g / part, x))
    return y


def _pooled(spec: PyramidSpec | MapPyramidSpec, g: Body, x: ir.Value, size: ir.Value) -> ir.Value:
    """A map and its means over squares of several scales (Zhao et al. 2017, 3.2).

    x (B,size,r,c), size (2): r and c -> (B,W,r,c).
    """
    parts = [x]
    for number, scale in enumerate(spec.scales):
        pooled = g.call(square_means(scale, g.dtype), x, size, name="pooled")  # (B, W, scale, scale)
        parts.append(g.call(bilinear, _normed(spec, 1, g, f"pools.{number}", pooled), size))
    return _normed(spec, 3, g, "pooled", g.op.Concat(*parts, axis=1))


@cache
def _shares(scale: int, dtype: ir.DataType) -> OnnxFunction:
    """Matrix (scale,old) of that type: the shares of `old` values in the mean of each of `scale` stretches.

    Stretch n goes from the floor of n old / scale to the ceiling of (n + 1) old / scale.
    """
    kind = int(dtype)

    @script(domain, default_opset=op)
    def shares(old):
        zero, one, count = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_int=scale)
        column = op.Constant(value_ints=[1])
        number = op.Range(zero, count, one)  # (scale)
        start = op.Unsqueeze(number * old / count, column)  # (scale, 1)
        end = op.Unsqueeze(((number + one) * old + count - one) / count, column)
        order = op.Range(zero, op.Squeeze(old), one)  # (old)
        within = op.And(op.GreaterOrEqual(order, start), op.Less(order, end))
        matrix = op.Cast(within, to=kind) / op.Cast(end - start, to=kind)
        return matrix

    return shares


@cache
def square_means(scale: int, dtype: ir.DataType) -> OnnxFunction:
    """x (B,W,r,c), size (2): r and c -> the means (B,W,scale,scale) of overlapping parts of it."""
    shares = _shares(scale, dtype)

    @script(domain, default_opset=op)
    def square_means(x, size):
        zero, one, two = (
            op.Constant(value_ints=[0]),
            op.Constant(value_ints=[1]),
            op.Constant(value_ints=[2]),
        )
        down, across = shares(op.Slice(size, zero, one)), shares(op.Slice(size, one, two))
        narrow = op.MatMul(x, op.Transpose(across, perm=[1, 0]))  # (B, W, r, scale)
        y = op.MatMul(down, narrow)
        return y

    return square_means
