"""The gated delta rule over chunks of tokens: matrices that tokens decay, correct and read."""

import numpy as np
import onnx_ir as ir
from onnxscript import graph, script

from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.chunks import chunked, decayed, decays, transposed

CHUNK = 32  # tokens


@component("y", "state")
def delta_rule(
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    decay: ir.Value,
    beta: ir.Value,
    state: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Each token decays the state, replaces a part of what its key reads there, and reads the result.

    That is S = exp(decay) S + beta k (v - exp(decay) kᵀS)ᵀ and y = qᵀS (Yang et al. 2024, 3.1), by chunks of
    tokens (3.3): within one, the corrections solve a triangular system. q and k (B,S,V,D), v (B,S,V,E),
    decay and beta (B,S,V,1), state (B,V,D,E) -> y (B,S,V,E), state.

    One token needs no chunks. `verify` compares functions without branches, so each branch is one.
    """
    inputs = q, k, v, decay, beta, state
    single = g.op.Equal(g.op.Shape(q, start=1, end=2), g.op.Constant(value_ints=[1]), name="single")
    y, after = g.either(single, lambda: one_token(g, *inputs), lambda: by_chunks(g, *inputs))
    return y, after


@component("y", "after")
def one_token(
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    decay: ir.Value,
    beta: ir.Value,
    state: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """As `delta_rule`, for S=1; decay (B,1,V,1), or (B,1,V,D) of each channel of a key."""
    op, turn = g.op, [0, 2, 1, 3]
    q, k, v, beta = (op.Transpose(x, perm=turn) for x in (q, k, v, beta))  # (B, V, 1, ...)
    shares = g.call(decayed, op.Transpose(decay, perm=[0, 2, 3, 1]), name="shares")  # (B, V, D or 1, 1)
    before = op.Mul(state, shares, name="before")  # (B, V, D, E)
    new = op.Mul(beta, op.Sub(v, op.MatMul(k, before)), name="new")  # (B, V, 1, E)
    written = op.MatMul(op.Transpose(k, perm=[0, 1, 3, 2]), new, name="written")  # (B, V, D, E)
    after = op.Add(before, written, name="after")
    return op.Transpose(op.MatMul(q, after), perm=turn), after


@component("y", "after")
def by_chunks(
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    decay: ir.Value,
    beta: ir.Value,
    state: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """As `delta_rule`, for any S."""
    op, length = g.op, g.op.Shape(q, start=1, end=2, name="length")
    size = op.Min(length, op.Constant(value_ints=[CHUNK]), name="size")
    q, k, v, decay, beta = (g.call(chunked, x, size) for x in (q, k, v, decay, beta))  # (N, B, V, C, ...)
    sums = op.CumSum(decay, op.Constant(value_int=3), name="sums")  # (N, B, V, C, 1)
    later = g.call(decays, g.call(transposed, decay), size)  # (N, B, V, C, C)
    between = g.call(transposed, later, name="between")
    turned = g.call(transposed, k)  # (N, B, V, D, C)
    replaced = op.Mul(beta, k, name="replaced")  # (N, B, V, C, D)
    inverse = inverted(g, op.Mul(op.MatMul(replaced, turned), between))  # (N, B, V, C, C)
    values = op.MatMul(inverse, op.Mul(beta, v), name="values")  # (N, B, V, C, E)
    growth = g.call(decayed, sums)
    weights = op.MatMul(inverse, op.Mul(replaced, growth), name="weights")  # (N, B, V, C, D)
    scores = op.Mul(op.MatMul(q, turned), between, name="scores")  # (N, B, V, C, C)
    end = op.Constant(value_ints=[-1]), op.Constant(value_ints=[2**62])
    last = op.Slice(sums, *end, op.Constant(value_ints=[3]), name="last")  # (N, B, V, 1, 1)
    left = op.Slice(later, *end, op.Constant(value_ints=[4]), name="left")  # (N, B, V, C, 1)
    read, written = op.Mul(q, growth), op.Mul(k, left)
    rest = read, written, values, weights, scores, g.call(decayed, last)
    state, outputs = g.call(scanned, state, *rest, name="scanned")
    y = op.Slice(g.call(joined, outputs), op.Constant(value_ints=[0]), length, op.Constant(value_ints=[1]))
    return y, state


@script(domain, default_opset=op)
def joined(x):
    """x (N,B,V,C,D) -> (B,N*C,V,D)."""
    apart = op.Transpose(x, perm=[1, 0, 3, 2, 4])  # (B, N, C, V, D)
    shape = op.Concat(op.Shape(apart, end=1), op.Constant(value_ints=[-1]), op.Shape(apart, start=3), axis=0)
    y = op.Reshape(apart, shape)
    return y


def levels(size: int) -> np.ndarray:
    """Masks (L,C,C) of the squares below the diagonal between pairs of squares of 1, 2, 4 ... numbers."""
    numbers, masks = np.arange(size), []
    for width in (2**level for level in range(size.bit_length() - 1)):
        squares = numbers // width
        odd = (squares % 2 == 1)[:, None]
        masks.append(odd & (squares[:, None] == squares + 1))
    return np.stack(masks)


LEVELS = float32(levels(CHUNK))
EYE = float32(np.eye(CHUNK))


@script(domain, default_opset=op)
def squares(system):
    """The identity (C,C) and the masks of `levels` (L,C,C), in the numbers of a system (...,C,C)."""
    zeros, axes = op.Constant(value_ints=[0, 0]), op.Constant(value_ints=[-2, -1])
    square = op.Shape(system, start=-2)
    one = op.CastLike(op.Slice(op.Constant(value=EYE), zeros, square, axes), system)  # (C, C)
    masks = op.CastLike(op.Slice(op.Constant(value=LEVELS), zeros, square, axes), system)  # (L, C, C)
    return one, masks


@component("inverse")
def inverted(g: Body, system: ir.Value) -> ir.Value:
    """The inverse of 1 plus what is below the diagonal of `system` (...,C,C).

    Inverses of squares on the diagonal become those of squares of twice the size.
    """
    op = g.op
    inverse, masks = g.call(squares, system)
    for number in range(len(levels(CHUNK))):
        below = op.Mul(system, op.Gather(masks, op.Constant(value_int=number)))
        change = below if number == 0 else op.MatMul(op.MatMul(inverse, below), inverse)
        inverse = op.Sub(inverse, change)  # (..., C, C)
    return inverse


@script(domain, default_opset=op)
def scanned(state, read, written, values, weights, scores, shares):
    """Chunks (N,B,V,C,...) one by one over the state (B,V,D,E) -> state, outputs (N,B,V,C,E)."""

    @graph()
    def chunk(before, q, k, u, w, a, d):
        new = u - op.MatMul(w, before)  # (B, V, C, E)
        y = op.MatMul(q, before) + op.MatMul(a, new)  # (B, V, C, E)
        after = before * d + op.MatMul(op.Transpose(k, perm=[0, 1, 3, 2]), new)  # (B, V, D, E)
        return after, y

    after, outputs = op.Scan(
        state, read, written, values, weights, scores, shares, body=chunk, num_scan_inputs=6
    )
    return after, outputs
