"""Sequences cut into M blocks of C tokens, so that a query is not compared with every key.

Zeros are joined to them rather than padded: CUDA has no Pad of bfloat16 or int64.
"""

from onnxscript import script

from txgraphs import domain, op


@script(domain, default_opset=op)
def blocks(x, size):
    """x (B,S,W), size = [C] -> (B,M,C,W); zeros fill up the last block."""
    missing = op.Mod(op.Neg(op.Shape(x, start=1, end=2)), size)
    sizes = op.Concat(op.Shape(x, end=1), missing, op.Shape(x, start=2), axis=0)
    zeros = op.Expand(op.CastLike(op.Constant(value_int=0), x), sizes)
    padded = op.Concat(x, zeros, axis=1)  # (B, M*C, W)
    shape = op.Concat(op.Constant(value_ints=[0, -1]), size, op.Shape(x, start=2), axis=0)
    y = op.Reshape(padded, shape)  # (B, M, C, W)
    return y


@script(domain, default_opset=op)
def rows(x):
    """x (B,M,C,W) -> (B*M,C,W): every block is a row of its own."""
    y = op.Reshape(x, op.Concat(op.Constant(value_ints=[-1]), op.Shape(x, start=2), axis=0))
    return y


@script(domain, default_opset=op)
def columns(x):
    """x (B,M,C,W) -> (B*C,M,W): tokens that stand at one place of their blocks."""
    y = rows(op.Transpose(x, perm=[0, 2, 1, 3]))
    return y


@script(domain, default_opset=op)
def no_block(x):
    """x (B,M,C,W) -> zeros (B,1,C,W)."""
    one = op.Constant(value_ints=[1])
    shape = op.Concat(op.Shape(x, end=1), one, op.Shape(x, start=2), axis=0)
    y = op.Expand(op.CastLike(op.Constant(value_int=0), x), shape)
    return y


@script(domain, default_opset=op)
def preceded(x):
    """x (B,M,C,W) -> (B*M,2C,W): every block after the one before it, or after zeros."""
    first, one, last = op.Constant(value_ints=[0]), op.Constant(value_ints=[1]), op.Constant(value_ints=[-1])
    before = op.Concat(no_block(x), op.Slice(x, first, last, one), axis=1)  # (B, M, C, W)
    y = rows(op.Concat(before, x, axis=2))
    return y


@script(domain, default_opset=op)
def surrounded(x):
    """x (B,M,C,W) -> (B*M,3C,W): every block between its neighbours, or zeros."""
    first, one, last = op.Constant(value_ints=[0]), op.Constant(value_ints=[1]), op.Constant(value_ints=[-1])
    before = op.Concat(no_block(x), op.Slice(x, first, last, one), axis=1)  # (B, M, C, W)
    after = op.Concat(op.Slice(x, one, op.Shape(x, start=1, end=2), one), no_block(x), axis=1)
    y = rows(op.Concat(before, x, after, axis=2))
    return y


@script(domain, default_opset=op)
def joined(x, like):
    """x (B*M,C,W), like (B,S,...) -> (B,S,W): rows of blocks as the sequences that they were cut from."""
    shape = op.Concat(
        op.Shape(like, end=1), op.Constant(value_ints=[-1]), op.Shape(x, start=2, end=3), axis=0
    )
    whole = op.Reshape(x, shape)  # (B, M*C, W)
    first, length = op.Constant(value_ints=[0]), op.Shape(like, start=1, end=2)
    y = op.Slice(whole, first, length, op.Constant(value_ints=[1]))
    return y


@script(domain, default_opset=op)
def distances(q, first, last):
    """How far keys at places first..last-1 stand after the queries q (R,N,C,H), at 0..C-1 -> (C,T)."""
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    keys = op.Range(first, last, one)  # (T)
    queries = op.Range(zero, op.Squeeze(op.Shape(q, start=2, end=3)), one)  # (C)
    y = keys - op.Unsqueeze(queries, op.Constant(value_ints=[1]))
    return y
