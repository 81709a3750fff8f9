"""Convolutions of each channel over the last tokens, which keep their last inputs between steps."""

import onnx_ir as ir
from onnxscript import script

from txgraphs import domain, op
from txgraphs._component import Body, component


@component("y", "present")
def causal_convolution(
    kernel: int, bias: bool, g: Body, x: ir.Value, past: ir.Value, ends: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """A convolution of each channel over the token and those before it (LeCun et al. 1989).

    x (B,S,W), past (B,W,K), ends (B) the tokens up to the last of each row -> y (B,S,W), present (B,W,K).
    """
    op = g.op
    inputs = op.Concat(op.Transpose(past, perm=[0, 2, 1]), x, axis=1, name="inputs")  # (B, K+S, W)
    ones, labels = op.Constant(value_ints=[1] * kernel), [f"weight_{at}" for at in range(kernel)]
    taps = op.Split(g.weight("weight"), ones, axis=2, name=labels)  # (W, 1, 1)
    y = tap(kernel, g, inputs, taps[0], 0)  # (B, S, W)
    for at in range(1, kernel):
        y = op.Add(y, tap(kernel, g, inputs, taps[at], at))
    if bias:
        y = op.Add(y, g.weight("bias"))
    steps = op.Constant(value_ints=list(range(kernel)))
    return y, g.call(last_inputs, inputs, ends, steps, name="present")


def tap(kernel: int, g: Body, inputs: ir.Value, weight: ir.Value, at: int) -> ir.Value:
    """inputs (B,K+S,W), weight (W,1,1) -> the products (B,S,W) of those at a place of the kernel."""
    op, last = g.op, at + 1 - kernel
    stop = op.Constant(value_ints=[last or 2**62])
    there = op.Slice(inputs, op.Constant(value_ints=[at + 1]), stop, op.Constant(value_ints=[1]))
    return op.Mul(there, op.Reshape(weight, op.Constant(value_ints=[-1])))


@script(domain, default_opset=op)
def last_inputs(inputs, ends, steps):
    """inputs (B,K+S,W), of which `ends` (B) new ones are a row's, steps (K) from 0 -> present (B,W,K)."""
    picks = op.Unsqueeze(ends, op.Constant(value_ints=[1])) + steps  # (B, K)
    rows = op.GatherND(inputs, op.Unsqueeze(picks, op.Constant(value_ints=[2])), batch_dims=1)  # (B, K, W)
    present = op.Transpose(rows, perm=[0, 2, 1])  # (B, W, K)
    return present
