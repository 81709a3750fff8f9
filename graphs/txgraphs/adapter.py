"""A small network after a layer."""

import onnx_ir as ir

from txexport.spec import AdapterSpec
from txgraphs._component import Body, component
from txgraphs.feedforward import feed_forward
from txgraphs.norm import norm


@component("y")
def adapter(spec: AdapterSpec, g: Body, x: ir.Value) -> ir.Value:
    """A norm and a small network in a residual (Houlsby et al. 2019, 2.1): x (B,S,W) -> y (B,S,W)."""
    small = feed_forward(spec.feed_forward, g / "feed_forward", norm(spec.norm, g / "norm", x))
    y = g.op.Add(x, small)  # (B, S, W)
    return y
