"""Frames of a sound, projected."""

import onnx_ir as ir

from txexport.spec import FramesSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("x", "mask")
def frames_embedding(
    spec: FramesSpec, g: Body, input_features: ir.Value, attention_mask: ir.Value
) -> tuple[ir.Value, ...]:
    """The norm of each frame, and a projection; zeros for padding.

    input_features (B,S,features), attention_mask (B,S) -> x (B,S,W), mask (B,S).
    """
    op = g.op
    projected = linear(True, g / "project", norm(spec.norm, g / "norm", input_features))
    real = op.Unsqueeze(op.Cast(attention_mask, to=ir.DataType.BOOL), op.Constant(value_ints=[2]))
    x = op.Where(real, projected, op.CastLike(op.Constant(value_float=0.0), projected))
    return x, op.Identity(attention_mask)


embedding = frames_embedding
