"""Neighbouring vectors of a sequence, side by side."""

from onnxscript import script

from txgraphs import domain, op


@script(domain, default_opset=op)
def trigrams(x):
    """x (B,S,W) -> y (B,S,3*W): the next vector, each itself, and the one before; zeros beyond the ends."""
    first, one, last = op.Constant(value_ints=[0]), op.Constant(value_ints=[1]), op.Constant(value_ints=[-1])
    shape = op.Concat(op.Shape(x, end=1), one, op.Shape(x, start=2), axis=0)
    nothing = op.Expand(op.CastLike(op.Constant(value_int=0), x), shape)  # (B, 1, W)
    after = op.Concat(op.Slice(x, one, op.Shape(x, start=1, end=2), one), nothing, axis=1)
    before = op.Concat(nothing, op.Slice(x, first, last, one), axis=1)
    y = op.Concat(after, x, before, axis=2)
    return y
