"""A dense network beside a mixture of experts."""

import onnx_ir as ir

from txexport.spec import DenseAndExpertsSpec
from txgraphs._component import Body, component
from txgraphs.experts import chosen, router
from txgraphs.feedforward import feed_forward
from txgraphs.norm import norm


@component("y")
def dense_and_experts(spec: DenseAndExpertsSpec, g: Body, residual: ir.Value, x: ir.Value) -> ir.Value:
    """A network and experts that read one residual by norms of their own (Gemma Team 2026).

    The sublayer's input as it is, and normalised, both (B,S,W) -> y (B,S,W).
    """
    op = g.op
    dense = norm(spec.norm, g / "dense_post_norm", feed_forward(spec.dense, g / "dense", x))  # (B, S, W)
    width = op.Constant(value_float=spec.hidden_size**-0.5)
    scored = op.Mul(norm(spec.norm, g / "router_norm", residual), width, name="scored")  # (B, S, W)
    share, choice = router(spec.experts, g / "router", scored)
    read = norm(spec.norm, g / "experts_norm", residual)
    mixed = chosen(spec.experts, g, read, share, choice)  # (B, S, W)
    y = op.Add(dense, norm(spec.norm, g / "experts_post_norm", mixed))
    return y
