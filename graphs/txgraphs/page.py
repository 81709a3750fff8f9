"""Words in their boxes on a page, and patches of its image (Xu et al. 2020, 3; Huang et al. 2022, 3.1)."""

import functools

import numpy as np
import onnx
import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import BoxTablesSpec, PageBiasSpec, PageImageSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.inputs.patches import patch_embedding
from txgraphs.norm import norm
from txgraphs.position import relative_bias


@component("y")
def box_tables(spec: BoxTablesSpec, g: Body, boxes: ir.Value) -> ir.Value:
    """Learned vectors of a box's edges, height and width, joined or added (Xu et al. 2020, 3.2).

    boxes (B,S,4): left, top, right, bottom -> y (B,S,W).
    """
    op = g.op
    left, top, right, bottom = (
        op.Gather(boxes, op.Constant(value_int=edge), axis=2, name=name)  # (B, S)
        for edge, name in enumerate(("left", "top", "right", "bottom"))
    )
    height, width = op.Sub(bottom, top, name="high"), op.Sub(right, left, name="wide")
    if spec.longest is not None:
        least, most = op.Constant(value_int=0), op.Constant(value_int=spec.longest)
        height, width = (op.Min(op.Max(extent, least), most) for extent in (height, width))
    read = [("x", left), ("y", top), ("x", right), ("y", bottom), ("height", height), ("width", width)]
    parts = [op.Gather(g.weight(f"{table}.weight"), index) for table, index in read]
    return op.Concat(*parts, axis=2) if spec.joined else functools.reduce(op.Add, parts)  # (B, S, W)


@component("y")
def page_image(spec: PageImageSpec, g: Body, x: ir.Value, pixel_values: ir.Value) -> ir.Value:
    """Patches of a page's image after its tokens, and a norm of both (Huang et al. 2022, 3.1).

    x (B,S,W), pixel_values (B,channels,height,width) -> y (B,S+P,W).
    """
    patches = patch_embedding(spec.patches, g / "patches", pixel_values)  # (B, P, W)
    y = norm(spec.norm, g / "norm", g.op.Concat(x, patches, axis=1, name="joined"))
    return y


@functools.cache
def with_patches(spec: PageImageSpec) -> OnnxFunction:
    """The same of the patches behind the tokens: all are real, in places of the page, counted from 0.

    attention_mask (B,S), boxes (B,S,4), order (1,S) -> (B,S+P), (B,S+P,4), (1,S+P).
    """
    numbers = onnx.numpy_helper.from_array(np.array(spec.boxes, np.int64))
    count = len(spec.boxes)

    @script(domain, default_opset=op)
    def with_patches(attention_mask, boxes, order):
        one, rows = op.Constant(value_ints=[1]), op.Shape(boxes, start=0, end=1)
        ones = op.Expand(one, op.Concat(rows, op.Constant(value_ints=[count]), axis=0))  # (B, P)
        mask = op.Concat(attention_mask, ones, axis=1)
        fixed = op.Expand(op.Constant(value=numbers), op.Concat(rows, one, one, axis=0))  # (B, P, 4)
        every = op.Concat(boxes, fixed, axis=1)
        counted = op.Range(op.Constant(value_int=0), op.Constant(value_int=count), op.Constant(value_int=1))
        orders = op.Concat(order, op.Unsqueeze(counted, op.Constant(value_ints=[0])), axis=1)
        return mask, every, orders

    return with_patches


@component("bias")
def page_bias(spec: PageBiasSpec, g: Body, order: ir.Value, boxes: ir.Value) -> ir.Value:
    """Learned biases for how far apart tokens are on a page (Huang et al. 2022, 3.1).

    order (1,S), boxes (B,S,4) -> bias (B,N,S,S), or (1,N,S,S) without edges.
    """
    op = g.op
    bias = relative_bias(spec.order, g / "order", order, order)  # (1, N, S, S)
    if spec.edges is not None:
        for name, edge in (("left", 0), ("bottom", 3)):
            place = op.Gather(boxes, op.Constant(value_int=edge), axis=2, name=f"{name}_edge")  # (B, S)
            bias = op.Add(bias, relative_bias(spec.edges, g / name, place, place))
    return op.Mul(bias, op.Constant(value_float=spec.scale), name="scaled")
