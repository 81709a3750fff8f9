"""A feature pyramid: maps of several resolutions as one of the finest."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import GroupNormSpec, PixelPyramidSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.group_norm import group_norm


@component("y")
def normed_convolution(kernel: int, norm: GroupNormSpec, bias: bool, g: Body, x: ir.Value) -> ir.Value:
    """A convolution and a group norm.

    x (B,inputs,R,C) -> y (B,F,R,C).
    """
    weights = [g.weight("convolution.weight")] + ([g.weight("convolution.bias")] if bias else [])
    convolved = g.op.Conv(x, *weights, pads=[kernel // 2] * 4, name="convolved")
    y = group_norm(norm, g / "norm", convolved)
    return y


@component("y")
def pixel_pyramid(spec: PixelPyramidSpec, g: Body, maps: dict[str, ir.Value]) -> ir.Value:
    """The coarsest map, added to each finer one and convolved (Lin et al. 2017, 3).

    maps (B,channels,R,C), the finest first -> y (B,size,R,C) of its places.
    """
    op = g.op
    *finer, coarsest = maps.values()
    x = op.Relu(normed_convolution(3, spec.norm, False, g / "stem", coarsest))  # (B, F, r, c)
    for number, fine in enumerate(reversed(finer)):
        side = normed_convolution(1, spec.norm, False, g / f"sides.{number}", fine)
        total = op.Add(g.call(nearest, x, side), side)
        x = op.Relu(normed_convolution(3, spec.norm, False, g / f"convolutions.{number}", total))
    y = op.Conv(x, g.weight("project.weight"), g.weight("project.bias"), pads=[1] * 4, name="projected")
    return y


@script(domain, default_opset=op)
def nearest(x, fine):
    """x (B,F,r,c), fine (B,F,R,C) -> y (B,F,R,C): the nearest place of x."""
    sizes = op.Concat(op.Shape(x, end=2), op.Shape(fine, start=2), axis=0)
    y = op.Resize(
        x,
        None,
        None,
        sizes,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return y
