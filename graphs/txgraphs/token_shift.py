"""Tokens and those before them, whose last one is kept between steps."""

from onnxscript import script

from txgraphs import domain, op


@script(domain, default_opset=op)
def token_shift(x, past, ends):
    """The token before each one (Peng et al. 2023, RWKV, 3.1.1).

    x (B,S,W), past (B,W), ends (B) the tokens up to the last of each row -> shifted (B,S,W), present (B,W).
    """
    zero, axis, last = op.Constant(value_ints=[0]), op.Constant(value_ints=[1]), op.Constant(value_ints=[-1])
    inputs = op.Concat(op.Unsqueeze(past, axis), x, axis=1)  # (B, 1+S, W)
    shifted = op.Slice(inputs, zero, last, axis)  # (B, S, W)
    present = op.GatherND(inputs, op.Unsqueeze(ends, axis), batch_dims=1)  # (B, W)
    return shifted, present


@script(domain, default_opset=op)
def interpolated(x, shifted, share):
    """x and shifted (B,S,W), share (W) of x in the sum -> (B,S,W)."""
    y = shifted + (x - shifted) * share
    return y
