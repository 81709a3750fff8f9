"""Time mixing, in place of attention."""

import onnx_ir as ir

from txexport.spec import TimeMixSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear
from txgraphs.token_shift import interpolated, token_shift
from txgraphs.wkv import wkv


@component("y", "time_shift", "numerator", "denominator", "maximum")
def time_mix(
    spec: TimeMixSpec,
    g: Body,
    x: ir.Value,
    time_shift: ir.Value,
    numerator: ir.Value,
    denominator: ir.Value,
    maximum: ir.Value,
    real: ir.Value,
    ends: ir.Value,
) -> tuple[ir.Value, ...]:
    """A gated mean of past values, of keys that are their weights (Peng et al. 2023, RWKV, 3.1).

    x (B,S,W), time_shift, numerator, denominator and maximum (B,W), real (B,S,1) is 0 for padding, ends (B)
    are the tokens up to the last of each row -> y (B,S,W), and the states.
    """
    op = g.op
    x = op.Mul(x, real, name="real_x")
    shifted, time_shift = g.call(token_shift, x, time_shift, ends, name="shift")  # (B, S, W)
    k = linear(False, g / "k", g.call(interpolated, x, shifted, g.weight("mix_k"), name="k_input"))
    v = linear(False, g / "v", g.call(interpolated, x, shifted, g.weight("mix_v"), name="v_input"))
    decay, sums = op.Neg(op.Exp(g.weight("decay"))), (numerator, denominator, maximum)
    read, *present = wkv(g, k, v, decay, g.weight("bonus"), *sums, real)  # (B, S, W)
    gate = linear(
        False, g / "gate", g.call(interpolated, x, shifted, g.weight("mix_gate"), name="gate_input")
    )
    y = linear(False, g / "output", op.Mul(op.Sigmoid(gate), read, name="gated"))
    return y, time_shift, *present
