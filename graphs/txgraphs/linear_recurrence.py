"""Linear recurrences over tokens, of one number for each channel."""

import onnx_ir as ir
from onnxscript import graph, script

from txgraphs import domain, op
from txgraphs._component import Body, component


@component("y", "state")
def linear_recurrence(g: Body, decay: ir.Value, x: ir.Value, state: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Each token decays the state and adds its input: h = a h + x (De et al. 2024, 2.4).

    decay and x (B,S,W), state (B,W) -> y (B,S,W), state. One token needs no loop.
    """
    inputs = decay, x, state
    single = g.op.Equal(g.op.Shape(x, start=1, end=2), g.op.Constant(value_ints=[1]), name="single")
    y, after = g.either(single, lambda: g.call(one_token, *inputs), lambda: g.call(by_token, *inputs))
    return y, after


@script(domain, default_opset=op)
def one_token(decay, x, state):
    """As `linear_recurrence`, for S=1."""
    y = op.Unsqueeze(state, op.Constant(value_ints=[1])) * decay + x  # (B, 1, W)
    after = op.Gather(y, op.Constant(value_int=0), axis=1)  # (B, W); Squeeze fails where S is known
    return y, after


@script(domain, default_opset=op)
def by_token(decay, x, state):
    """As `linear_recurrence`, for any S."""

    @graph()
    def token(before, rest, added):
        after = before * rest + added  # (B, W)
        y = op.Identity(after)
        return after, y

    after, y = op.Scan(
        state, decay, x, body=token, num_scan_inputs=2, scan_input_axes=[1, 1], scan_output_axes=[1]
    )
    return y, after
