"""Maps of two resolutions, added by learned shares."""

import onnx_ir as ir

from txexport.spec import StagedDepthSpec
from txgraphs._component import Body, component
from txgraphs.batch_norm import batch_norm
from txgraphs.feature_fusion import AROUND, convolution


@component("y")
def selective_fusion(spec: StagedDepthSpec, g: Body, x: ir.Value, coarse: ir.Value) -> ir.Value:
    """A map and a coarser one of as many places, each by its share (Kim et al. 2022, 3.3).

    x, coarse (B,F,height,width) -> y, of the same shape.
    """
    op, (first_norm, second_norm) = g.op, spec.norms
    both = op.Concat(x, coarse, axis=1)
    first = op.Relu(batch_norm(first_norm, g / "first_norm", convolution(g, "first", both, pads=AROUND)))
    second = convolution(g, "second", first, pads=AROUND)
    second = op.Relu(batch_norm(second_norm, g / "second_norm", second))  # (B, F/2, height, width)
    shares = op.Sigmoid(convolution(g, "share", second, pads=AROUND))
    of_x, of_coarse = op.Split(
        shares, op.Constant(value_ints=[1, 1]), axis=1, name=["of_x", "of_coarse"]
    )  # (B, 1, height, width)
    y = op.Add(op.Mul(x, of_x), op.Mul(coarse, of_coarse))
    return y
