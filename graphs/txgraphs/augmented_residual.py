"""A residual of low rank beside attention."""

import onnx_ir as ir

from txexport.spec import AugmentedResidualSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("y")
def augmented_residual(spec: AugmentedResidualSpec, g: Body, x: ir.Value) -> ir.Value:
    """A vector and its normalised projection to few numbers and back (Menghani et al. 2024, 2.1).

    x (B,S,W) -> y (B,S,W).
    """
    small = linear(False, g / "down", x)  # (B, S, rank)
    y = g.op.Add(x, norm(spec.norm, g / "norm", linear(False, g / "up", small)))  # (B, S, W)
    return y
