"""Boxes from distributions of their edges (Peng et al. 2024, 4.1)."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import EdgesSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32


@component("boxes")
def edge_boxes(spec: EdgesSpec, g: Body, first: ir.Value, scores: ir.Value) -> ir.Value:
    """First boxes with edges moved by the mean of each distribution; `scale` and `reach` are learned.

    first boxes (B,Q,4), scores of edges (B,Q,4*(bins+1)) -> boxes (B,Q,4).
    """
    op, learned = g.op, g.weight("scale")
    shares = g.call(edge_shares(spec.bins), scores)  # (B, Q, 4, bins + 1)
    distances = op.CastLike(g.call(edge_distances(spec.bins), learned, g.weight("reach")), shares)
    means = op.MatMul(shares, distances, name="means")  # (B, Q, 4)
    two, last = op.Constant(value_ints=[2, 2]), 2
    before, behind = op.Split(means, two, axis=last, name=["before", "behind"])
    centre, extent = op.Split(first, two, axis=last, name=["centre", "extent"])
    scale = op.Abs(learned)
    half = op.Mul(op.CastLike(op.Constant(value_float=0.5), first), scale)
    step = op.Div(extent, scale)
    start = op.Sub(centre, op.Mul(op.Add(half, before), step))
    end = op.Add(centre, op.Mul(op.Add(half, behind), step))
    middle = op.Div(op.Add(start, end), op.CastLike(op.Constant(value_float=2.0), first))
    boxes = op.Concat(middle, op.Sub(end, start), axis=last)
    return boxes


@cache
def edge_distances(bins: int) -> OnnxFunction:
    """See txmodels.edges; computed in float32."""
    steps = range(1 - bins // 2, bins // 2)
    power, exponents = 2 / (bins - 2), [float(abs(step)) for step in steps]
    signs = [float((step > 0) - (step < 0)) for step in steps]

    @script(domain, default_opset=op)
    def edge_distances(scale, reach):
        """The learned numbers (1) -> the offsets (bins+1) of scores (Peng et al. 2024, equation 5)."""
        most = op.Cast(op.Abs(reach), to=1) * op.Cast(op.Abs(scale), to=1)
        unit = op.Constant(value=float32(1.0))
        base = op.Pow(most + unit, op.Constant(value=float32(power)))
        grown = op.Pow(base, op.Constant(value=float32(exponents))) - unit
        inner = grown * op.Constant(value=float32(signs))
        twice = most * op.Constant(value=float32(2.0))
        distances = op.Concat(op.Neg(twice), inner, twice, axis=0)
        return distances

    return edge_distances


@cache
def edge_shares(bins: int) -> OnnxFunction:
    """See txmodels.edges."""
    size = bins + 1

    @script(domain, default_opset=op)
    def edge_shares(scores):
        """Scores of edges (B,Q,4*(bins+1)) -> probabilities (B,Q,4,bins+1)."""
        shares = op.Softmax(op.Reshape(scores, op.Constant(value_ints=[0, 0, 4, size])), axis=3)
        return shares

    return edge_shares
