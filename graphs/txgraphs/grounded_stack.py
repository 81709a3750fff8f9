"""Maps of an image as places, the best of them as first boxes, and what changes the boxes."""

from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import GroundedSpec, GroupNormSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.group_norm import group_norm
from txgraphs.heads.boxes import perceptron
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.phrases import number_sines

SIDE, EDGE = 0.05, 0.01  # of the first boxes of the finest map; nearer to an edge there are none
LARGE = 3.0e38  # a logit of 1
LEAST = 1e-5  # of a share of the image that has a logit


@component("y")
def map_level(norm: GroupNormSpec, halved: bool, g: Body, x: ir.Value) -> ir.Value:
    """A map in the width of places, or with `halved` one of half of its rows and columns.

    x (B,R,C,F) -> y (B,R,C,W), or (B,R/2,C/2,W).
    """
    kernel, stride = (3, 2) if halved else (1, 1)
    weights, around = (g.weight("convolution.weight"), g.weight("convolution.bias")), [kernel // 2] * 4
    turned = g.op.Transpose(x, perm=[0, 3, 1, 2])
    convolved = g.op.Conv(
        turned, *weights, pads=around, strides=[stride] * 2, name="convolved"
    )  # (B, W, R, C)
    y = g.op.Transpose(group_norm(norm, g / "norm", convolved), perm=[0, 2, 3, 1])
    return y


@script(domain, default_opset=op)
def place_points(real, like):
    """Places of the image (B,R,C) -> points (B,R*C,2) as shares of it, and its share of the map (B,1,2).

    Columns are first. The numbers are of the type of `like`.
    """
    zero, one, last = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[-1])
    middle, half = op.Constant(value_ints=[1]), op.Constant(value=float32(0.5))
    numbers = op.CastLike(real, half)
    width = op.ReduceSum(op.Gather(numbers, zero, axis=1), middle, keepdims=1)  # (B, 1)
    height = op.ReduceSum(op.Gather(numbers, zero, axis=2), middle, keepdims=1)
    counts = op.Unsqueeze(op.Concat(width, height, axis=1), middle)  # (B, 1, 2)
    rows, columns = op.Shape(real, start=1, end=2), op.Shape(real, start=2)
    down = op.CastLike(op.Range(zero, op.Squeeze(rows), one), half) + half
    across = op.CastLike(op.Range(zero, op.Squeeze(columns), one), half) + half
    shape = op.Concat(rows, columns, axis=0)
    all_down = op.Reshape(op.Expand(op.Unsqueeze(down, last), shape), op.Constant(value_ints=[-1, 1]))
    all_across = op.Reshape(op.Expand(across, shape), op.Constant(value_ints=[-1, 1]))
    points = op.CastLike(op.Concat(all_across, all_down, axis=1) / counts, like)  # (B, R*C, 2)
    shares = op.CastLike(counts / op.CastLike(op.Concat(columns, rows, axis=0), half), like)
    return points, shares


@script(domain, default_opset=op)
def place_boxes(points, real, side):
    """points (B,S,2), which are of the image (B,S), a side () -> logits (B,S,4), and which have one (B,S)."""
    last, unit = op.Constant(value_ints=[2]), op.CastLike(op.Constant(value_float=1.0), points)
    least, most = op.Constant(value_float=EDGE), op.Constant(value_float=1 - EDGE)
    sides = op.Expand(op.CastLike(side, points), op.Shape(points))
    boxes = op.Concat(points, sides, axis=2)  # (B, S, 4)
    within = op.And(boxes > op.CastLike(least, points), boxes < op.CastLike(most, points))
    count = op.ReduceSum(op.CastLike(within, points), last, keepdims=0)  # (B, S)
    inside = op.And(count > op.CastLike(op.Constant(value_float=3.5), points), real)
    none = op.CastLike(op.Constant(value_float=LARGE), points)
    logits = op.Where(op.Unsqueeze(inside, last), op.Log(boxes / (unit - boxes)), none)
    return logits, inside


@script(domain, default_opset=op)
def placed(positions, weight, level):
    """positions (B,S,W) of a level's places, vectors of levels (L,W), a level () -> their sum (B,S,W)."""
    y = op.CastLike(positions, weight) + op.Gather(weight, level)
    return y


@script(domain, default_opset=op)
def by_level(x, shares):
    """x (B,S,n), shares of levels (B,L,n) -> products (B,S,L,n)."""
    y = op.Unsqueeze(x, op.Constant(value_ints=[2])) * op.Unsqueeze(shares, op.Constant(value_ints=[1]))
    return y


@script(domain, default_opset=op)
def flat_mask(real):
    """real (B,R,C) -> (B,R*C)."""
    y = op.Reshape(real, op.Constant(value_ints=[0, -1]))
    return y


@component("boxes")
def first_boxes(
    spec: GroundedSpec,
    g: Body,
    image: ir.Value,
    text: ir.Value,
    anchors: ir.Value,
    inside: ir.Value,
    tokens: ir.Value,
) -> ir.Value:
    """The boxes of the places that are likest to a token (Liu et al. 2023, 3.2).

    image (B,P,W), text (B,S,W), anchors (B,P,4), inside (B,P), tokens (B,S) -> boxes (B,Q,4).
    """
    op, last, one = g.op, g.op.Constant(value_ints=[2]), g.op.Constant(value_ints=[1])
    zero = op.CastLike(op.Constant(value_float=0.0), image)
    vectors = linear(True, g / "vector", op.Where(op.Unsqueeze(inside, last), image, zero))
    vectors = norm(spec.norm, g / "norm", vectors)  # (B, P, W)
    products = g.call(token_products(g.dtype), vectors, text, tokens)  # (B, P, S)
    highest, _ = op.TopK(products, one, name=["highest", "token"])  # (B, P, 1)
    count = op.Constant(value_ints=[spec.queries])
    _, best = op.TopK(op.Squeeze(highest, last), count, name=["merit", "best"])  # (B, Q)
    index = op.Unsqueeze(best, last)  # (B, Q, 1)
    chosen = op.GatherND(vectors, index, batch_dims=1)  # (B, Q, W)
    first = op.GatherND(anchors, index, batch_dims=1)  # (B, Q, 4)
    boxes = op.Sigmoid(op.Add(perceptron(g, "box", spec.box_layers, chosen), first))
    return boxes


@component("positions")
def level_positions(width: int, g: Body, references: ir.Value) -> ir.Value:
    """Boxes as positions of queries (Liu et al. 2022, 4.2).

    references (B,Q,L,4) -> positions (B,Q,W), of the finest level's.
    """
    op = g.op
    first = op.Gather(references, op.Constant(value_int=0), axis=2)
    first = op.Gather(first, op.Constant(value_ints=[1, 0, 2, 3]), axis=2)  # (B, Q, 4)
    positions = perceptron(g, "layers", 2, g.call(number_sines(width // 2), first))
    return positions


@component("boxes")
def box_move(layers: int, g: Body, x: ir.Value, references: ir.Value) -> ir.Value:
    """Boxes that are changed (Zhu et al. 2021, A.4).

    x (B,Q,W), references (B,Q,4) -> boxes (B,Q,4).
    """
    boxes = g.call(moved, perceptron(g, "layers", layers, x), references)
    return boxes


@script(domain, default_opset=op)
def moved(change, references):
    """Changes of logits, boxes (B,Q,4) -> boxes; none is nearer than LEAST to 0 or 1."""
    least, most = op.Constant(value_float=LEAST), op.Constant(value_float=1 - LEAST)
    unit = op.CastLike(op.Constant(value_float=1.0), references)
    within = op.Clip(references, op.CastLike(least, references), op.CastLike(most, references))
    boxes = op.Sigmoid(change + op.Log(within / (unit - within)))
    return boxes


@cache
def token_products(dtype: ir.DataType) -> OnnxFunction:
    """x (B,Q,W), text (B,S,W), tokens (B,S) -> products (B,Q,S), -inf where there is no token."""
    infinity = onnx.numpy_helper.from_array(np.array(-np.inf, dtype.numpy()))

    @script(domain, default_opset=op)
    def token_products(x, text, tokens):
        products = op.MatMul(x, op.Transpose(text, perm=[0, 2, 1]))  # (B, Q, S)
        real = op.Unsqueeze(tokens, op.Constant(value_ints=[1]))  # (B, 1, S)
        y = op.Where(real, products, op.Constant(value=infinity))
        return y

    return token_products


@cache
def token_scores(length: int, dtype: ir.DataType) -> OnnxFunction:
    """Queries x (B,Q,W), text (B,S,W), tokens (B,S) -> logits (B,Q,length), -inf where there is no token."""
    infinity, of_tokens = (
        onnx.numpy_helper.from_array(np.array(-np.inf, dtype.numpy())),
        token_products(dtype),
    )

    @script(domain, default_opset=op)
    def token_scores(x, text, tokens):
        products = of_tokens(x, text, tokens)  # (B, Q, S)
        missing = op.Constant(value_ints=[length]) - op.Shape(products, start=2)
        pads = op.Concat(op.Constant(value_ints=[0, 0, 0, 0, 0]), missing, axis=0)
        logits = op.Pad(products, pads, op.Constant(value=infinity))
        return logits

    return token_scores
