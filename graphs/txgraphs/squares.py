"""Patches of images of any shape in squares of neighbours, without padding."""

from functools import cache

from onnxscript import OnnxFunction, script

from txgraphs import domain, op
from txgraphs.packed import patch_places as places_of


@cache
def squares(merged: int) -> OnnxFunction:
    """x (I,P,W), mask (I,P), spatial_shapes (I,2) -> y (1,N,W), the N patches of all images in turn.

    Those of an image are in squares of `merged` by `merged` neighbours, row by row; its padding is left out.
    """
    patch_places = places_of(merged)

    @script(domain, default_opset=op)
    def squares(x, mask, spatial_shapes):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        every, single = op.Constant(value_ints=[-1]), op.Constant(value_ints=[1])
        flat = op.Reshape(x, op.Concat(every, op.Shape(x, start=2, end=3), axis=0))  # (I*P, W)
        unpadded = op.Cast(op.Reshape(mask, every), to=9)
        real = op.Gather(flat, op.Reshape(op.NonZero(unpadded), every))  # (N, W)
        ones = op.Expand(single, op.Concat(op.Shape(spatial_shapes, start=0, end=1), single, axis=0))
        grids = op.Concat(ones, spatial_shapes, axis=1)  # (I, 3)
        coordinates, sides, first = patch_places(grids, real)
        row = op.Squeeze(op.Gather(coordinates, zero), op.Constant(value_ints=[0]))  # (N)
        column = op.Squeeze(op.Gather(coordinates, one), op.Constant(value_ints=[0]))
        wide = op.Squeeze(op.Gather(sides, one), op.Constant(value_ints=[0]))
        index = first + row * wide + column
        y = op.Unsqueeze(op.Gather(real, index), op.Constant(value_ints=[0]))
        return y

    return squares
