"""Scores of labels for the places of an image, from maps of several resolutions."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import FusedSegmentsSpec, HeadSpec, MapPyramidSpec, PyramidSpec, SegmentsSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.batch_norm import batch_norm
from txgraphs.bilinear import bilinear
from txgraphs.convolution_norm import convolution_norm
from txgraphs.feature_fusion import convolution, corner_aligned, feature_maps
from txgraphs.heads._grid import patch_counts
from txgraphs.linear import linear
from txgraphs.pyramid import map_pyramid, pyramid


@component("logits")
def segments_head(spec: HeadSpec, g: Body, maps: dict[str, ir.Value]) -> ir.Value:
    """Scores of labels from the maps of all stages (Xie et al. 2021, 3.2).

    maps (B,R,C,W), the finest first -> logits (B,labels,R,C) of its places. Each map's part of the joint
    projection precedes the interpolation, with which it commutes.
    """
    assert isinstance(spec.segments, SegmentsSpec)
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
    """The graph's output: logits (B,labels,R,C), of the finest map's places or of the image's pixels."""
    if spec.map_pyramid is not None:
        return {names.LOGITS: map_pyramid_head(spec.map_pyramid, place, maps)}
    return {names.LOGITS: segments_head(spec, place, maps)}


@component("logits")
def fused_segments_head(
    spec: FusedSegmentsSpec, g: Body, states: dict[str, ir.Value], pixel_values: ir.Value
) -> ir.Value:
    """Scores of labels from the fused map of several layers (Ranftl et al. 2021, 3.1).

    states (B,S,W), pixel_values (B,channels,height,width) -> logits (B,labels,height,width), of the pixels of
    whole patches where patches have 16 a side.
    """
    op = g.op
    grid = patch_counts(spec.fusion.patch_size, g, pixel_values)
    x = feature_maps(spec.fusion, g / "neck", states, grid)
    normed = op.Relu(convolution_norm(spec.norm.size, 3, 1, spec.norm.eps, g / "convolve", x))
    double = op.Mul(op.Shape(normed, start=2), op.Constant(value_ints=[2]))
    logits = g.call(corner_aligned, convolution(g, "scores", normed), double)
    return logits


@component("logits")
def pyramid_head(spec: PyramidSpec, g: Body, states: dict[str, ir.Value], pixel_values: ir.Value) -> ir.Value:
    """Scores of labels from a pyramid of maps (Xiao et al. 2018, 3.1).

    states (B,S,W), pixel_values (B,channels,height,width) -> logits (B,labels,4R,4C).
    """
    joint = pyramid(spec, g / "pyramid", states, patch_counts(spec.patch_size, g, pixel_values))
    logits = convolution(g, "scores", joint)
    return logits


@component("logits")
def map_pyramid_head(spec: MapPyramidSpec, g: Body, maps: dict[str, ir.Value]) -> ir.Value:
    """Scores of the labels of every pixel, from a pyramid of maps (Xiao et al. 2018, 3.1).

    maps (B,R,C,size), and last the pixels (B,channels,H,W) -> logits (B,labels,H,W).
    """
    *stages, pixels = maps.values()
    channels = {str(number): g.op.Transpose(x, perm=[0, 3, 1, 2]) for number, x in enumerate(stages)}
    joint = map_pyramid(spec, g / "pyramid", channels)
    logits = g.call(bilinear, convolution(g, "scores", joint), g.op.Shape(pixels, start=2))
    return logits
