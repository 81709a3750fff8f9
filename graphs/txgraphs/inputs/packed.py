"""Patches of images of any size, of all images in one row (Wang et al. 2024, 2.1)."""

import onnx_ir as ir

from txexport.spec import PackedSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear


@component("x")
def packed_embedding(spec: PackedSpec, g: Body, pixel_values: ir.Value) -> ir.Value:
    """Patches of images of any size, projected: pixel_values (N,numbers) -> x (1,N,W)."""
    patches = g.op.Unsqueeze(pixel_values, g.op.Constant(value_ints=[0]))  # (1, N, numbers)
    x = linear(spec.bias, g / "project", patches)
    return x


embedding = packed_embedding
