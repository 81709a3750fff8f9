"""State spaces over chunks of tokens: matrices that tokens decay, add to and read."""

import onnx_ir as ir
from onnxscript import graph, script

from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.chunks import MOST, chunked, decayed, decays, transposed


@component("y", "state")
def state_space(
    heads: int,
    groups: int,
    g: Body,
    x: ir.Value,
    b: ir.Value,
    c: ir.Value,
    steps: ir.Value,
    decay: ir.Value,
    state: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Each token decays the state of a head, adds its input times the step to it, and reads the result.

    That is S = exp(decay) S + step x bᵀ and y = S c (Dao and Gu 2024, 2), by chunks of tokens (6). Within
    one, a masked product adds what each token has written to later ones. Heads H in G groups that share b and
    c: x (B,S,H,P), b and c (B,S,G,D), steps and decay (B,S,H,1), state (B,H,P,D) -> y (B,S,H,P), state.

    One token needs no chunks. `verify` compares functions without branches, so each branch is one.
    """
    inputs = x, b, c, steps, decay, state
    single = g.op.Equal(g.op.Shape(x, start=1, end=2), g.op.Constant(value_ints=[1]), name="single")
    y, after = g.either(
        single, lambda: one_token(heads, groups, g, *inputs), lambda: by_chunks(heads, groups, g, *inputs)
    )
    return y, after


@component("y", "after")
def one_token(
    heads: int,
    groups: int,
    g: Body,
    x: ir.Value,
    b: ir.Value,
    c: ir.Value,
    steps: ir.Value,
    decay: ir.Value,
    state: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """As `state_space`, for S=1."""
    op = g.op
    column, row = (op.Constant(value_ints=sizes) for sizes in ([0, groups, -1, 1], [0, groups, 1, -1]))
    rest = g.call(decayed, op.Reshape(decay, op.Constant(value_ints=[0, heads, 1, 1])), name="rest")
    written = op.Reshape(op.Mul(x, steps), column, name="written")  # (B, G, H/G*P, 1)
    added = op.Mul(written, op.Reshape(b, row))  # (B, G, H/G*P, D)
    added = op.Reshape(added, op.Constant(value_ints=[0, heads, -1, 0]))  # (B, H, P, D)
    after = op.Add(op.Mul(state, rest), added, name="after")  # (B, H, P, D)
    grouped = op.Reshape(after, op.Constant(value_ints=[0, groups, -1, 0]))  # (B, G, H/G*P, D)
    y = op.MatMul(grouped, op.Reshape(c, column), name="read")  # (B, G, H/G*P, 1)
    return op.Reshape(y, op.Constant(value_ints=[0, 1, heads, -1])), after


@component("y", "after")
def by_chunks(
    heads: int,
    groups: int,
    g: Body,
    x: ir.Value,
    b: ir.Value,
    c: ir.Value,
    steps: ir.Value,
    decay: ir.Value,
    state: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """As `state_space`, for any S."""
    op, length = g.op, g.op.Shape(x, start=1, end=2, name="length")
    size = op.Min(length, op.Constant(value_ints=[MOST]), name="size")
    b = g.call(chunked, b, size)  # (N, B, G, C, D)
    x, c, steps, decay = (g.call(columns, one, size) for one in (x, c, steps, decay))  # (N, B, ..., C)
    sums = op.CumSum(decay, op.Constant(value_int=4), name="sums")  # (N, B, H, 1, C)
    scores = op.MatMul(b, c)  # (N, B, G, C, C)
    if groups > 1:
        shared = [head * groups // heads for head in range(heads)]
        scores = op.Gather(scores, op.Constant(value_ints=shared), axis=2)
    between = g.call(decays, decay, size, name="between")  # (N, B, H, C, C)
    scores = op.Mul(scores, between, name="scores")  # (N, B, H, C, C)
    written = op.Mul(x, steps, name="written")  # (N, B, H, P, C)
    near = op.MatMul(written, scores, name="near")  # (N, B, H, P, C)
    ends = op.Constant(value_ints=[-1]), op.Constant(value_ints=[2**62]), op.Constant(value_ints=[4])
    last = op.Slice(sums, *ends, name="last")  # (N, B, H, 1, 1)
    grouped = op.Constant(value_ints=[0, 0, groups, -1, 0])
    left = op.Mul(written, g.call(transposed, op.Slice(between, *ends)))
    left = op.Reshape(left, grouped, name="left")  # (N, B, G, H/G*P, C)
    column = op.Concat(op.Shape(x, end=4), op.Constant(value_ints=[1]), axis=0)
    rest = op.Reshape(op.Expand(g.call(decayed, last), column), grouped, name="rest")  # (N, B, G, H/G*P, 1)
    before = op.Reshape(state, op.Constant(value_ints=[0, groups, -1, 0]))  # (B, G, H/G*P, D)
    after, far = g.call(scanned, before, left, b, c, rest, name="scanned")
    far = op.Mul(op.Reshape(far, op.Shape(x)), g.call(decayed, sums), name="far")  # (N, B, H, P, C)
    y = g.call(rows, op.Add(near, far))  # (B, N*C, H, P)
    y = op.Slice(y, op.Constant(value_ints=[0]), length, op.Constant(value_ints=[1]))
    return y, op.Reshape(after, op.Shape(state))


@script(domain, default_opset=op)
def columns(x, size):
    """x (B,S,V,D) -> (N,B,V,D,C), chunks of `size` tokens; zeros fill up the last one."""
    y = transposed(chunked(x, size))
    return y


@script(domain, default_opset=op)
def rows(x):
    """x (N,B,V,D,C) -> (B,N*C,V,D)."""
    apart = op.Transpose(x, perm=[1, 0, 4, 2, 3])  # (B, N, C, V, D)
    shape = op.Concat(op.Shape(apart, end=1), op.Constant(value_ints=[-1]), op.Shape(apart, start=3), axis=0)
    y = op.Reshape(apart, shape)
    return y


@script(domain, default_opset=op)
def scanned(state, left, b, c, rest):
    """Chunks (N,B,G,...) one by one over the state (B,G,H/G*P,D) -> state, outputs (N,B,G,H/G*P,C)."""

    @graph()
    def chunk(before, x, writes, reads, k):
        y = op.MatMul(before, reads)  # (B, G, H/G*P, C)
        after = before * k + op.MatMul(x, writes)  # (B, G, H/G*P, D)
        return after, y

    after, outputs = op.Scan(state, left, b, c, rest, body=chunk, num_scan_inputs=4)
    return after, outputs
