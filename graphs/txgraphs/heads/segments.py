"""Scores of labels for the places of an image (Xie et al. 2021, 3.2)."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.batch_norm import batch_norm
from txgraphs.linear import linear


@script(domain, default_opset=op)
def bilinear(x, size):
    """x (B,F,r,c), size (2) -> y (B,F,*size), bilinear between the centres of pixels."""
    sizes = op.Concat(op.Shape(x, start=0, end=2), op.Reshape(size, op.Constant(value_ints=[2])), axis=0)
    y = op.Resize(x, None, None, sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    return y


@component("logits")
def segments_head(spec: HeadSpec, g: Body, maps: dict[str, ir.Value]) -> ir.Value:
    """Scores of labels from the maps of all stages (Xie et al. 2021, 3.2).

    maps (B,R,C,W), the finest first -> logits (B,labels,R,C) of its places. Each map's part of the joint
    projection precedes the interpolation, with which it commutes.
    """
    assert spec.segments is not None
    op, size = g.op, g.op.Shape(maps["0"], start=1, end=3)
    fused = None
    for number, x in enumerate(maps.values()):
        projected = op.Transpose(linear(True, g / f"projects.{number}", x), perm=[0, 3, 1, 2])
        part = op.Conv(projected, g.weight(f"fuses.{number}.weight"), name=f"fused.{number}")  # (B, F, r, c)
        if number:
            part = g.call(bilinear, part, size)
        fused = part if fused is None else op.Add(fused, part)
    normed = op.Relu(batch_norm(spec.segments.norm, g / "norm", fused))
    logits = op.Conv(normed, g.weight("scores.weight"), g.weight("scores.bias"), name="scores")
    return logits


def outputs_of_maps(
    spec: HeadSpec, place: Place, x: ir.Value, maps: dict[str, ir.Value]
) -> dict[str, ir.Value]:
    """The graph's output: logits (B,labels,R,C)."""
    return {names.LOGITS: segments_head(spec, place, maps)}
