"""Labels, boxes and masks of an image's objects, the masks from attention (Carion et al. 2020, 4.4)."""

import numpy as np
import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names
from txexport.spec import HeadSpec, ObjectMasksSpec
from txexport.spec.object_masks import BOX_LAYERS
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.activation import activation
from txgraphs.group_norm import group_norm
from txgraphs.heads.boxes import perceptron
from txgraphs.linear import linear
from txgraphs.pixel_pyramid import nearest, normed_convolution

HIDDEN = float(np.finfo(np.float32).min)  # the score of a place that is not of the image


@component("weights")
def attention_maps(
    spec: ObjectMasksSpec, g: Body, queries: ir.Value, image: ir.Value, real: ir.Value
) -> ir.Value:
    """The weight of each place for each query and head; those of a query add up to 1 over all heads.

    queries (B,Q,W), image (B,S,W), which places are of it (B,R,C) -> weights (B,Q,N,R,C).
    """
    op, size = g.op, spec.hidden_size // spec.num_heads
    shape = op.Constant(value_ints=[0, 0, spec.num_heads, size])
    q = op.Transpose(op.Reshape(linear(True, g / "q", queries), shape), perm=[0, 2, 1, 3])  # (B, N, Q, H)
    k = op.Transpose(op.Reshape(linear(True, g / "k", image), shape), perm=[0, 2, 3, 1])  # (B, N, H, S)
    scaled = op.Mul(q, op.CastLike(op.Constant(value_float=size**-0.5), q))
    scores = op.Transpose(op.MatMul(scaled, k), perm=[0, 2, 1, 3])  # (B, Q, N, S)
    weights = g.call(places_of_all_heads, scores, real)
    return weights


@component("logits", "pred_boxes", "pred_masks")
def object_masks_head(
    spec: HeadSpec, g: Body, queries: ir.Value, maps: dict[str, ir.Value]
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Scores of labels, a box and a mask for each query (Carion et al. 2020, 3.2 and 4.4).

    queries (B,Q,W), maps -> logits (B,Q,labels), pred_boxes (B,Q,4), pred_masks (B,Q,R,C).

    maps are those of a network (B,R,C,channels), the finest first, then `grid` (B,r,c,W), `image` (B,S,W)
    after its layers, and `real` (B,r,c). What all queries share is convolved once.
    """
    assert spec.object_masks is not None
    op, masks, width = g.op, spec.object_masks, spec.object_masks.hidden_size
    first, second, *others = masks.norms
    act, around = activation(masks.activation), [1] * 4
    logits = linear(True, g / "classes", queries)
    pred_boxes = op.Sigmoid(perceptron(g, "box", BOX_LAYERS, queries))
    *finer, grid, image, real = maps.values()
    each = attention_maps(masks, g / "attention", queries, image, real)  # (B, Q, N, r, c)
    start, middle, end = (op.Constant(value_ints=[number]) for number in (0, width, masks.joined))
    weight, axis = g.weight("join.weight"), op.Constant(value_ints=[1])
    of_image, of_heads = op.Slice(weight, start, middle, axis), op.Slice(weight, middle, end, axis)
    channels = op.Transpose(grid, perm=[0, 3, 1, 2])
    shared = op.Conv(channels, of_image, g.weight("join.bias"), pads=around, name="shared")  # (B, F, r, c)
    rows = op.Concat(op.Constant(value_ints=[-1]), op.Shape(each, start=2), axis=0)
    joined = op.Conv(op.Reshape(each, rows), of_heads, pads=around, name="joined")  # (B*Q, F, r, c)
    x = g.call(act, group_norm(first, g / "join_norm", g.call(of_every_query, joined, shared)))
    x = g.call(act, normed_convolution(3, second, True, g / "reduce", x))
    for number, (fine, norm) in enumerate(zip(reversed(finer), others, strict=True)):
        place = g / f"sides.{number}"
        sides = place.weight("weight"), place.weight("bias")
        side = op.Conv(op.Transpose(fine, perm=[0, 3, 1, 2]), *sides, name=f"side.{number}")
        x = g.call(of_every_query, g.call(nearest, x, side), side)
        x = g.call(act, normed_convolution(3, norm, True, g / f"convolutions.{number}", x))
    flat = op.Conv(x, g.weight("project.weight"), g.weight("project.bias"), pads=around, name="flat")
    shape = op.Concat(op.Shape(queries, end=2), op.Shape(flat, start=2), axis=0)
    pred_masks = op.Reshape(flat, shape)
    return logits, pred_boxes, pred_masks


@script(domain, default_opset=op)
def places_of_all_heads(scores, real):
    """scores (B,Q,N,S), real (B,R,C) -> weights (B,Q,N,R,C): a softmax over all heads and places."""
    seen = op.Reshape(real, op.Constant(value_ints=[0, 1, 1, -1]))
    hidden = op.CastLike(op.Constant(value_float=HIDDEN), scores)
    flat = op.Reshape(op.Where(seen, scores, hidden), op.Constant(value_ints=[0, 0, -1]))
    shape = op.Concat(op.Shape(scores, end=3), op.Shape(real, start=1), axis=0)
    weights = op.Reshape(op.Softmax(flat, axis=2), shape)
    return weights


@script(domain, default_opset=op)
def of_every_query(x, shared):
    """x (B*Q,F,R,C), shared (B,F,R,C) -> their sum for each query (B*Q,F,R,C)."""
    rest = op.Constant(value_ints=[-1])
    apart = op.Concat(op.Shape(shared, end=1), rest, op.Shape(shared, start=1), axis=0)
    both = op.Reshape(x, apart) + op.Unsqueeze(shared, op.Constant(value_ints=[1]))  # (B, Q, F, R, C)
    y = op.Reshape(both, op.Concat(rest, op.Shape(shared, start=1), axis=0))
    return y


def outputs_of_maps(
    spec: HeadSpec, place: Place, x: ir.Value, maps: dict[str, ir.Value]
) -> dict[str, ir.Value]:
    """The graph's outputs: logits (B,Q,labels), pred_boxes (B,Q,4) and pred_masks (B,Q,R,C)."""
    logits, pred_boxes, pred_masks = object_masks_head(spec, place, x, maps)
    return {names.LOGITS: logits, names.PRED_BOXES: pred_boxes, names.PRED_MASKS: pred_masks}
