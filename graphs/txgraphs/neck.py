"""A grid's vectors as a map of features."""

import onnx_ir as ir

from txexport.spec import NeckSpec
from txgraphs._component import Body, component
from txgraphs.norm import norm


@component("features")
def neck(spec: NeckSpec, g: Body, x: ir.Value) -> ir.Value:
    """A projection and a convolution, each with a norm behind it (Li et al. 2022, 3).

    x (B,R,C,W) -> features (B,size,R,C).
    """
    op = g.op
    projected = op.Conv(op.Transpose(x, perm=[0, 3, 1, 2]), g.weight("project.weight"), name="projected")
    normed = norm(spec.norm, g / "project_norm", op.Transpose(projected, perm=[0, 2, 3, 1]))
    channels = op.Transpose(normed, perm=[0, 3, 1, 2])
    convolved = op.Conv(channels, g.weight("convolve.weight"), pads=[1, 1, 1, 1], name="convolved")
    normed = norm(spec.norm, g / "convolve_norm", op.Transpose(convolved, perm=[0, 2, 3, 1]))
    features = op.Transpose(normed, perm=[0, 3, 1, 2])
    return features
