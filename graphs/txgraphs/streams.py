"""Several vectors of each token, of which a layer reads the first (Baykal et al. 2023, AltUp)."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import StreamsSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("streams")
def expanded_streams(spec: StreamsSpec, g: Body, x: ir.Value) -> ir.Value:
    """A token's vector, and projections of it that are as long: x (B,S,W) -> streams (B,S,A,W)."""
    op, equal = g.op, as_long_as(g.dtype)
    others = [g.call(equal, linear(False, g / f"project.{i}", x), x) for i in range(spec.count - 1)]
    axis = op.Constant(value_ints=[2])
    streams = op.Concat(*(op.Unsqueeze(one, axis) for one in (x, *others)), axis=2)  # (B, S, A, W)
    return streams


@component("y")
def merged_streams(spec: StreamsSpec, g: Body, streams: ir.Value) -> ir.Value:
    """The mean of the first vector, and of projections of the others that are as long.

    streams (B,S,A,W) -> y (B,S,W).
    """
    op, equal = g.op, as_long_as(g.dtype)
    first, *others = (
        op.Gather(streams, op.Constant(value_int=i), axis=2) for i in range(spec.count)
    )  # (B, S, W)
    total = first
    for i, other in enumerate(others):
        total = op.Add(total, g.call(equal, linear(False, g / f"project.{i}", other), first))
    y = op.Mul(total, op.Constant(value_float=1 / spec.count))  # (B, S, W)
    return y


@cache
def as_long_as(dtype: ir.DataType) -> OnnxFunction:
    """x (B,S,W) scaled to the root mean square of like (B,S,W); that of x counts as 1e-5 ** 0.5 or more.

    Squares need float32 whatever the graph computes with.
    """
    kind, narrow = int(dtype), dtype != ir.DataType.FLOAT
    least = float32(1e-5)

    @script(domain, default_opset=op)
    def as_long_as(x, like):
        if narrow:
            x = op.Cast(x, to=1)
            like = op.Cast(like, to=1)
        last = op.Constant(value_ints=[-1])
        width = op.Cast(op.Shape(x, start=-1), to=1)
        target = op.Sqrt(op.ReduceSum(like * like, last) / width)  # (B, S, 1)
        mean = op.ReduceSum(x * x, last) / width
        present = op.Sqrt(op.Max(mean, op.Constant(value=least)))  # (B, S, 1)
        y = x * target / present
        if narrow:
            y = op.Cast(y, to=kind)
        return y

    return as_long_as


@component("scores")
def stream_router(spec: StreamsSpec, g: Body, x: ir.Value) -> ir.Value:
    """Scores of the vectors: tanh of a projection of one of them, normalised and divided by its width.

    x (B,S,W) -> scores (B,S,A).
    """
    width = g.op.Constant(value_float=1 / spec.norm.size)
    normed = g.op.Mul(norm(spec.norm, g / "norm", x), width, name="normed")
    scores = g.op.Tanh(linear(False, g / "project", normed))
    return scores


@component("predicted")
def predicted_streams(spec: StreamsSpec, g: Body, streams: ir.Value, scores: ir.Value) -> ir.Value:
    """Each vector plus a weighted sum of all: streams (B,S,A,W), scores (B,S,A) -> predicted (B,S,A,W)."""
    square = g.op.Constant(value_ints=[0, 0, spec.count, spec.count])
    weights = g.op.Reshape(linear(False, g, scores), square, name="weights")  # (B, S, A, A)
    predicted = g.op.Add(g.op.MatMul(weights, streams, name="mixed"), streams)  # (B, S, A, W)
    return predicted


@component("corrected")
def corrected_streams(
    spec: StreamsSpec, g: Body, predicted: ir.Value, y: ir.Value, scores: ir.Value
) -> ir.Value:
    """Each vector plus a share of what a layer's output differs from the first one by.

    predicted (B,S,A,W), y (B,S,W), scores (B,S,A) -> corrected (B,S,A,W).
    """
    op = g.op
    shares = op.Add(linear(False, g, scores), op.Constant(value_float=1.0), name="shares")
    first = op.Gather(predicted, op.Constant(value_int=0), axis=2)  # (B, S, W)
    difference = op.Unsqueeze(op.Sub(y, first, name="difference"), op.Constant(value_ints=[2]))
    shared = op.Mul(difference, op.Unsqueeze(shares, op.Constant(value_ints=[3])), name="shared")
    corrected = op.Add(shared, predicted)  # (B, S, A, W)
    return corrected
