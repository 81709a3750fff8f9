"""The delta rule with a decay of each channel of a key, over chunks of tokens."""

import numpy as np
import onnx_ir as ir
from onnxscript import script

from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.chunks import chunked, decayed, transposed
from txgraphs.delta_rule import CHUNK, inverted, joined, one_token, scanned, squares


@component("y", "state")
def channel_delta_rule(
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    decay: ir.Value,
    beta: ir.Value,
    state: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Each token decays the rows of the state, replaces a part of what its key reads there, and reads it.

    As `delta_rule`, with S = diag(exp(decay)) S before the correction (Kimi Team 2025, 3.1). q, k and decay
    (B,S,V,D), v (B,S,V,E), beta (B,S,V,1), state (B,V,D,E) -> y (B,S,V,E), state.

    One token needs no chunks. `verify` compares functions without branches, so each branch is one.
    """
    inputs = q, k, v, decay, beta, state
    single = g.op.Equal(g.op.Shape(q, start=1, end=2), g.op.Constant(value_ints=[1]), name="single")
    y, state = g.either(single, lambda: one_token(g, *inputs), lambda: by_chunks(g, *inputs))
    return y, state


@component("y", "state")
def by_chunks(
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    decay: ir.Value,
    beta: ir.Value,
    state: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """As `channel_delta_rule`, for any S."""
    op, length = g.op, g.op.Shape(q, start=1, end=2, name="length")
    size = op.Min(length, op.Constant(value_ints=[CHUNK]), name="size")
    q, k, v, decay, beta = (g.call(chunked, x, size) for x in (q, k, v, decay, beta))  # (N, B, V, C, ...)
    between, scores = products(g, q, k, decay)  # (N, B, V, C, C)
    inverse = inverted(g, op.Mul(beta, between))  # (N, B, V, C, C)
    values = op.MatMul(inverse, op.Mul(beta, v), name="values")  # (N, B, V, C, E)
    sums = op.CumSum(decay, op.Constant(value_int=3), name="sums")  # (N, B, V, C, D)
    growth, left = g.call(decayed, sums), g.call(decayed, g.call(after, decay))
    weights = op.MatMul(inverse, op.Mul(op.Mul(beta, k), growth), name="weights")  # (N, B, V, C, D)
    end = op.Constant(value_ints=[-1]), op.Constant(value_ints=[2**62])
    last = op.Slice(sums, *end, op.Constant(value_ints=[3]), name="last")  # (N, B, V, 1, D)
    shares = g.call(decayed, g.call(transposed, last))  # (N, B, V, D, 1)
    rest = op.Mul(q, growth), op.Mul(k, left), values, weights, scores, shares
    state, outputs = g.call(scanned, state, *rest, name="scanned")
    y = op.Slice(g.call(joined, outputs), op.Constant(value_ints=[0]), length, op.Constant(value_ints=[1]))
    return y, state


@script(domain, default_opset=op)
def after(decay):
    """decay (N,B,V,C,D) -> sums (N,B,V,C,D) of the logarithms of later tokens."""
    sums = op.CumSum(decay, op.Constant(value_int=3), exclusive=1, reverse=1)
    return sums


@component("between", "scores")
def products(g: Body, q: ir.Value, k: ir.Value, decay: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Products of keys, and of queries, with keys that decay up to them.

    Two tokens are in neighbouring squares of exactly one of the sizes 1, 2, 4 ... (`levels` in delta_rule).
    Their decay is that of the earlier one up to the boundary of the two squares, times that of the later one
    from there: both are at most 1, where exp(sum) and exp(-sum) of one token each would overflow. q, k and
    decay (N,B,V,C,D) -> between, below the diagonal only, and scores (N,B,V,C,C).
    """
    op = g.op
    plain = op.MatMul(q, g.call(transposed, k))  # (N, B, V, C, C)
    one, masks = g.call(squares, plain)
    reaches = g.call(spans_of, plain)  # (L, C, C)
    between, scores = None, op.Mul(plain, one)
    for number in range(len(spans(CHUNK))):
        level = op.Constant(value_int=number)
        mask = op.Gather(masks, level)  # (C, C)
        share = g.call(decayed, op.MatMul(op.Gather(reaches, level), decay), name="share")  # (N, B, V, C, D)
        keys = op.Mul(k, share)
        turned = g.call(transposed, keys)  # (N, B, V, D, C)
        pairs = op.Mul(op.MatMul(keys, turned), mask)
        between = pairs if between is None else op.Add(between, pairs)
        scores = op.Add(scores, op.Mul(op.MatMul(op.Mul(q, share), turned), mask))
    assert between is not None
    return between, scores


def spans(size: int) -> np.ndarray:
    """Masks (L,C,C) of the tokens between each token and the boundary of its pair of squares, by `levels`.

    In the first square of a pair those after it, in the second one those up to it.
    """
    numbers, masks = np.arange(size), []
    for width in (2**level for level in range(size.bit_length() - 1)):
        square = numbers // width
        odd, up_to = (square % 2 == 1)[:, None], numbers <= numbers[:, None]
        masks.append((square[:, None] == square) & (odd == up_to))
    return np.stack(masks)


SPANS = float32(spans(CHUNK))


@script(domain, default_opset=op)
def spans_of(system):
    """`spans` (L,C,C), in the numbers of a system (...,C,C)."""
    zeros, axes = op.Constant(value_ints=[0, 0]), op.Constant(value_ints=[-2, -1])
    reaches = op.Slice(op.Constant(value=SPANS), zeros, op.Shape(system, start=-2), axes)
    y = op.CastLike(reaches, system)
    return y
