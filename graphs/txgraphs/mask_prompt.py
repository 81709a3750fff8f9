"""A mask as a prompt: a vector for each place of an image."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import MaskPromptSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.norm import norm


@component("dense")
def mask_prompt(spec: MaskPromptSpec, g: Body, masks: ir.Value) -> ir.Value:
    """Convolutions of a mask's logits (Kirillov et al. 2023, A): masks (B,Q,4R,4C) -> dense (B,Q,W,R,C)."""
    op, act, halving = g.op, activation(spec.activation), {"kernel_shape": [2, 2], "strides": [2, 2]}
    x = op.Conv(g.call(of_one_channel, masks), g.weight("halve.weight"), g.weight("halve.bias"), **halving)
    x = norm(spec.norm, g / "halve_norm", op.Transpose(x, perm=[0, 2, 3, 1]))
    x = op.Transpose(g.call(act, x), perm=[0, 3, 1, 2])  # (B*Q, channels/4, 2R, 2C)
    x = op.Conv(x, g.weight("halve_again.weight"), g.weight("halve_again.bias"), **halving)
    x = norm(spec.second_norm, g / "halve_again_norm", op.Transpose(x, perm=[0, 2, 3, 1]))
    x = op.Transpose(g.call(act, x), perm=[0, 3, 1, 2])  # (B*Q, channels, R, C)
    x = op.Conv(x, g.weight("project.weight"), g.weight("project.bias"), name="projected")
    dense: ir.Value = g.call(of_each_mask, x, masks)
    return dense


@script(domain, default_opset=op)
def of_one_channel(masks):
    """masks (B,Q,h,w) -> (B*Q,1,h,w)."""
    y = op.Reshape(masks, op.Concat(op.Constant(value_ints=[-1, 1]), op.Shape(masks, start=2), axis=0))
    return y


@script(domain, default_opset=op)
def of_each_mask(x, masks):
    """x (B*Q,W,R,C), masks (B,Q,h,w) -> (B,Q,W,R,C)."""
    y = op.Reshape(x, op.Concat(op.Shape(masks, end=2), op.Shape(x, start=1), axis=0))
    return y
