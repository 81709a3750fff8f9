"""Chunks of tokens, and the decay from each token to later ones in its chunk."""

import numpy as np
from onnxscript import script

from txgraphs import domain, op
from txgraphs._constants import float32

MOST = 64  # tokens of a chunk
FAINT = 1e-26  # smaller factors become 0: products with denormal numbers take a hundred times as long
UPPER = float32(np.triu(np.ones((MOST, MOST))))
LATER = float32(np.triu(np.ones((MOST, MOST)), 1))


@script(domain, default_opset=op)
def chunked(x, size):
    """x (B,S,V,D) -> (N,B,V,C,D), chunks of `size` tokens; zeros fill up the last one."""
    missing = op.Mod(op.Neg(op.Shape(x, start=1, end=2)), size)
    pads = op.Concat(op.Constant(value_ints=[0, 0, 0, 0, 0]), missing, op.Constant(value_ints=[0, 0]), axis=0)
    padded = op.Pad(x, pads)  # (B, N*C, V, D)
    shape = op.Concat(op.Constant(value_ints=[0, -1]), size, op.Shape(x, start=2), axis=0)
    y = op.Transpose(op.Reshape(padded, shape), perm=[1, 0, 3, 2, 4])  # (N, B, V, C, D)
    return y


@script(domain, default_opset=op)
def transposed(x):
    """x (N,B,V,C,D) -> (N,B,V,D,C)."""
    y = op.Transpose(x, perm=[0, 1, 2, 4, 3])
    return y


@script(domain, default_opset=op)
def decayed(x):
    """exp(x), or 0 where that is below FAINT."""
    y = op.ThresholdedRelu(op.Exp(x), alpha=FAINT)
    return y


@script(domain, default_opset=op)
def decays(decay, size):
    """decay (N,B,H,1,C) of logarithms -> the decay (N,B,H,C,C) from each token to itself and later ones.

    The logarithms between two tokens are summed directly: differences of cumulative sums lose digits.
    """
    zeros, axes = op.Constant(value_ints=[0, 0]), op.Constant(value_ints=[0, 1])
    square = op.Concat(size, size, axis=0)
    upper = op.CastLike(op.Slice(op.Constant(value=UPPER), zeros, square, axes), decay)  # (C, C)
    later = op.CastLike(op.Slice(op.Constant(value=LATER), zeros, square, axes), decay)  # (C, C)
    between = decayed(op.MatMul(op.Mul(decay, later), upper)) * upper
    return between
