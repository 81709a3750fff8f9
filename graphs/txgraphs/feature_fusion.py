"""Maps of features of several layers, fused from coarse to fine; R rows and C columns of patches."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import ClassReadout, FeatureFusionSpec, FeatureMapSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.batch_norm import batch_norm
from txgraphs.bilinear import bilinear
from txgraphs.linear import linear

AROUND = [1, 1, 1, 1]  # a pixel of zeros at each edge


@component("features")
def feature_map(spec: FeatureMapSpec, tokens: int, g: Body, state: ir.Value, grid: ir.Value) -> ir.Value:
    """A layer's patches as a map of another resolution (Ranftl et al. 2021, 3.1, "Reassemble").

    state (B,S,W), grid (2): R and C -> features (B,F,height,width).
    """
    op, factor = g.op, int(spec.factor)
    start, end = op.Constant(value_ints=[tokens]), op.Shape(state, start=1, end=2)
    patches = op.Slice(state, start, end, op.Constant(value_ints=[1])) if tokens else state
    shape = op.Concat(op.Constant(value_ints=[0, -1]), grid, axis=0)
    patches = _with_class(spec, g, patches, state)
    columns = op.Transpose(patches, perm=[0, 2, 1], name="patches")  # (B, W, R * C)
    x = convolution(g, "project", op.Reshape(columns, shape))  # (B, size, R, C)
    if factor > 1:
        sides, weights = [factor, factor], (g.weight("resize.weight"), g.weight("resize.bias"))
        x = op.ConvTranspose(x, *weights, kernel_shape=sides, strides=sides, name="resize")
    elif factor == 0:
        x = convolution(g, "resize", x, pads=AROUND, strides=[2, 2])
    features = op.Conv(x, g.weight("convolve.weight"), pads=AROUND, name="convolved")
    return features


def _with_class(spec: FeatureMapSpec, g: Body, x: ir.Value, state: ir.Value) -> ir.Value:
    """x (B,R * C,W), state (B,S,W) -> patches with what they take of the class token, as x."""
    if spec.readout == ClassReadout.IGNORE:
        return x
    op = g.op
    start, end, axis = (op.Constant(value_ints=[number]) for number in (0, 1, 1))
    first = op.Slice(state, start, end, axis, name="class")  # (B, 1, W)
    if spec.readout == ClassReadout.ADD:
        return op.Add(x, first)
    both = op.Concat(x, op.Expand(first, op.Shape(x)), axis=2)
    return g.call(activation(spec.activation), linear(True, g / "readout", both))


@component("y")
def residual_unit(spec: FeatureFusionSpec, g: Body, x: ir.Value) -> ir.Value:
    """Two convolutions after ReLU, and a residual (He et al. 2016, "Identity Mappings", 3).

    x (B,F,height,width) -> y, of the same shape.
    """
    op = g.op
    first = _normed_convolution(spec, g, "first", op.Relu(x))
    y = op.Add(x, _normed_convolution(spec, g, "second", op.Relu(first)))
    return y


def _normed_convolution(spec: FeatureFusionSpec, g: Body, part: str, x: ir.Value) -> ir.Value:
    y = convolution(g, part, x, spec.bias, pads=AROUND)
    return y if spec.norm is None else batch_norm(spec.norm, g / f"{part}_norm", y)


@component("fused")
def feature_fusion(
    spec: FeatureFusionSpec, g: Body, x: ir.Value, size: ir.Value, features: ir.Value | None = None
) -> ir.Value:
    """A finer map added to the fused coarser ones, refined and interpolated (Ranftl et al. 2021, 3.1).

    The projection precedes the interpolation, with which it commutes: it reads fewer pixels so.
    x, features (B,F,height,width), size (2): new height and width -> fused (B,F,*size).
    """
    if features is not None:
        x = g.op.Add(x, residual_unit(spec, g / "add", features))
    refined = residual_unit(spec, g / "refine", x)
    fused = g.call(corner_aligned, convolution(g, "project", refined), size)
    return fused


@script(domain, default_opset=op)
def corner_aligned(x, size):
    """x (B,F,height,width), size (2) -> y (B,F,*size), bilinear between the centres of corner pixels."""
    # Reshape tells ONNX Runtime that there are two numbers, wherever they come from.
    sides = op.Reshape(size, op.Constant(value_ints=[2]))
    sizes = op.Concat(op.Shape(x, start=0, end=2), sides, axis=0)
    y = op.Resize(x, None, None, sizes, mode="linear", coordinate_transformation_mode="align_corners")
    return y


@component("x")
def feature_maps(spec: FeatureFusionSpec, g: Body, states: dict[str, ir.Value], grid: ir.Value) -> ir.Value:
    """The fused map of several states, twice as high and wide as the finest (Ranftl et al. 2021, 3.1).

    states (B,S,W), one for each map, grid (2): R and C -> x (B,F,height,width).
    """
    op = g.op
    features = [
        feature_map(part, spec.tokens, g / f"maps.{number}", state, grid)
        for number, (part, state) in enumerate(zip(spec.maps, states.values(), strict=True))
    ]
    if spec.doubling:
        return _doubled_maps(spec, g, features)
    double = op.Mul(op.Shape(features[0], start=2), op.Constant(value_ints=[2]))
    sizes = [double, *[op.Shape(finer, start=2) for finer in features[:-1]]]
    last = len(features) - 1
    x = feature_fusion(spec, g / f"fusions.{last}", features[last], sizes[last])
    for part in range(last - 1, -1, -1):
        x = feature_fusion(spec, g / f"fusions.{part}", x, sizes[part], features[part])
    return x


def _doubled_maps(spec: FeatureFusionSpec, g: Body, features: list[ir.Value]) -> ir.Value:
    """Maps fused from coarse to fine, each with twice the rows and columns of the one before."""
    op, x = g.op, features[-1]
    for part in range(len(features) - 1, -1, -1):
        size = op.Shape(x, start=2)
        finer = None if part == len(features) - 1 else g.call(bilinear, features[part], size)
        double = op.Mul(size, op.Constant(value_ints=[2]))
        x = feature_fusion(spec, g / f"fusions.{part}", x, double, finer)
    return x


def convolution(g: Body, part: str, x: ir.Value, bias: bool = True, **attributes: list[int]) -> ir.Value:
    """x (B,channels,height,width) through the convolution `part`, with a bias or none."""
    weights = [g.weight(f"{part}.weight"), *([g.weight(f"{part}.bias")] if bias else [])]
    y: ir.Value = g.op.Conv(x, *weights, name=part, **attributes)
    return y
