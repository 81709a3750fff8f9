"""Selective scans: a recurrence over tokens, with a state of a few numbers for each channel."""

from onnxscript import graph, script

from txgraphs import domain, op


@script(domain, default_opset=op)
def selective_scan(x, steps, b, c, rate, state):
    """Each token decays the numbers of a channel, adds its input along b to them, and reads them along c.

    That is h = exp(step rate) h + x b and y = h · c (Gu and Dao 2023, 3.2; x is times the step already).
    x and steps (B,S,I), b and c (B,S,D), rate (I,D), state (B,I,D) -> y (B,S,I), state.
    """
    last, first = op.Constant(value_ints=[2]), op.Constant(value_ints=[1])

    @graph()
    def token(before, added, step, writes, reads):
        rest = op.ThresholdedRelu(op.Exp(op.Unsqueeze(step, last) * rate), alpha=1e-26)  # (B, I, D)
        after = before * rest + op.Unsqueeze(added, last) * op.Unsqueeze(writes, first)
        y = op.Squeeze(op.MatMul(after, op.Unsqueeze(reads, last)), last)  # (B, I)
        return after, y

    state, y = op.Scan(
        state,
        x,
        steps,
        b,
        c,
        body=token,
        num_scan_inputs=4,
        scan_input_axes=[1, 1, 1, 1],
        scan_output_axes=[1],
    )
    return y, state
