"""The position-wise network of a block."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import FeedForwardSpec
from txgraphs import domain, op
from txgraphs.activation import activation
from txgraphs.linear import linear


@cache
def feed_forward(spec: FeedForwardSpec) -> OnnxFunction:
    """Up, non-linearity, down (Vaswani et al. 2017, 3.3); or gated (Shazeer 2020, 2): x (B,S,W) -> y."""
    act, project, gated = activation(spec.activation), linear(spec.bias), spec.gated

    @script(domain, default_opset=op)
    def feed_forward(x, up_weight, up_bias, gate_weight, gate_bias, down_weight, down_bias):
        if gated:
            wide = act(project(x, gate_weight, gate_bias)) * project(x, up_weight, up_bias)  # (B, S, F)
        else:
            wide = act(project(x, up_weight, up_bias))  # (B, S, F)
        y = project(wide, down_weight, down_bias)  # (B, S, W)
        return y

    return feed_forward
