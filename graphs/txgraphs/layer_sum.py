"""A weighted sum of the hidden states of all layers."""

import onnx_ir as ir

from txgraphs._component import Body, component


@component("x")
def layer_sum(g: Body, states: dict[str, ir.Value]) -> ir.Value:
    """The sum of all layers' hidden states, with learned weights (Peters et al. 2018, 3.2).

    Hidden states (B,S,W), in order -> x (B,S,W).
    """
    op = g.op
    shares = op.Softmax(g.weight("weight"), axis=0, name="shares")
    parts = [
        op.Mul(state, op.Gather(shares, op.Constant(value_int=layer)))
        for layer, state in enumerate(states.values())
    ]
    x = parts[0]  # (B, S, W)
    for part in parts[1:]:
        x = op.Add(x, part)
    return x
