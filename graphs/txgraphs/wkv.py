"""Means of past values, whose weights decay by a constant of each channel (WKV)."""

import onnx_ir as ir
from onnxscript import graph, script

from txgraphs import domain, op
from txgraphs._component import Body, component

NOTHING = -1e38  # the maximum of a row without past tokens
HIDDEN = 3e38  # subtracted from the keys of padding, whose weights are then 0 even beside NOTHING


@component("y", "numerator", "denominator", "maximum")
def wkv(
    g: Body,
    k: ir.Value,
    v: ir.Value,
    decay: ir.Value,
    bonus: ir.Value,
    numerator: ir.Value,
    denominator: ir.Value,
    maximum: ir.Value,
    real: ir.Value,
) -> tuple[ir.Value, ir.Value, ir.Value, ir.Value]:
    """The mean of all values, by weights that decay (Peng et al. 2023, RWKV, 3.1.2).

    A weight is e^k, times e^decay for every later token; the token's own is e^(k + bonus). The sums of
    weighted values and of weights are kept divided by e^maximum, so that no exponential overflows.

    k and v (B,S,W), decay and bonus (W), numerator, denominator and maximum (B,W), real (B,S,1) is 0 for
    padding -> y (B,S,W), numerator, denominator, maximum. One token needs no loop.
    """
    op = g.op
    counted, rest, maximum = g.call(counted_keys, k, decay, denominator, maximum, real, name="counted")
    inputs = counted, v, rest, numerator, denominator, maximum
    single = op.Equal(op.Shape(k, start=1, end=2), op.Constant(value_ints=[1]), name="single")
    *before, numerator, denominator, maximum = g.either(
        single, lambda: g.call(one_token, *inputs), lambda: g.call(by_token, *inputs)
    )
    y = g.call(mean, op.Add(k, bonus, name="current"), v, *before)  # (B, S, W)
    return y, numerator, denominator, maximum


@script(domain, default_opset=op)
def counted_keys(k, decay, denominator, maximum, real):
    """Keys and decays without the effect of padding, and a maximum also for rows without past tokens.

    k (B,S,W), decay (W), denominator and maximum (B,W), real (B,S,1) -> k, decay (B,S,W), maximum (B,W).
    """
    zero, one = op.Constant(value_float=0.0), op.Constant(value_float=1.0)
    counted = k + (real - one) * op.Constant(value_float=HIDDEN)  # (B, S, W)
    known = op.Where(op.Equal(denominator, zero), op.Constant(value_float=NOTHING), maximum)
    rest = real * decay
    return counted, rest, known


@script(domain, default_opset=op)
def mean(current, v, numerator, denominator, maximum):
    """Values v (B,S,W) of weights e^current, and the sums before them, all (B,S,W) -> their means (B,S,W)."""
    highest = op.Max(maximum, current)
    past, new = op.Exp(maximum - highest), op.Exp(current - highest)
    y = (past * numerator + new * v) / (past * denominator + new)
    return y


@script(domain, default_opset=op)
def one_token(k, v, decay, numerator, denominator, maximum):
    """As `by_token`, for S=1."""
    axis, first = op.Constant(value_ints=[1]), op.Constant(value_int=0)
    numerators, denominators = op.Unsqueeze(numerator, axis), op.Unsqueeze(denominator, axis)  # (B, 1, W)
    maxima = op.Unsqueeze(maximum, axis)
    key, value = op.Gather(k, first, axis=1), op.Gather(v, first, axis=1)  # (B, W)
    later = maximum + op.Gather(decay, first, axis=1)
    highest = op.Max(later, key)
    rest, weight = op.Exp(later - highest), op.Exp(key - highest)
    after, weights = rest * numerator + weight * value, rest * denominator + weight
    return numerators, denominators, maxima, after, weights, highest


@script(domain, default_opset=op)
def by_token(k, v, decay, numerator, denominator, maximum):
    """k, v, decay (B,S,W), sums and their maximum (B,W) -> those before each token (B,S,W), and the last."""

    @graph()
    def token(total, weights, top, key, value, slower):
        later = top + slower  # (B, W)
        highest = op.Max(later, key)
        rest, weight = op.Exp(later - highest), op.Exp(key - highest)
        after, heavier = rest * total + weight * value, rest * weights + weight
        total_before, weights_before, top_before = op.Identity(total), op.Identity(weights), op.Identity(top)
        return after, heavier, highest, total_before, weights_before, top_before

    after, weights, highest, numerators, denominators, maxima = op.Scan(
        numerator,
        denominator,
        maximum,
        k,
        v,
        decay,
        body=token,
        num_scan_inputs=3,
        scan_input_axes=[1, 1, 1],
        scan_output_axes=[1, 1, 1],
    )
    return numerators, denominators, maxima, after, weights, highest
