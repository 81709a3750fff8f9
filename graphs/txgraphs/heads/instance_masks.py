"""Labels, boxes and masks of an image's objects, the masks of a map's places (Robinson et al. 2025, 3)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec, InstanceMasksSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.activation import activation
from txgraphs.bilinear import bilinear
from txgraphs.feedforward import feed_forward
from txgraphs.heads.boxes import perceptron, refined, scaled
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("y")
def places_block(spec: InstanceMasksSpec, g: Body, x: ir.Value) -> ir.Value:
    """A convolution of each channel alone, a norm, a projection and an activation, added to a map.

    x (B,W,R,C) -> y (B,W,R,C).
    """
    op, weights = g.op, (g.weight("each.weight"), g.weight("each.bias"))
    convolved = op.Conv(x, *weights, pads=[1] * 4, group=spec.hidden_size, name="convolved")
    normed = norm(spec.map_norm, g / "norm", op.Transpose(convolved, perm=[0, 2, 3, 1]))  # (B, R, C, W)
    activated = g.call(activation(spec.activation), linear(True, g / "point", normed))
    y = op.Add(op.Transpose(activated, perm=[0, 3, 1, 2]), x)
    return y


@component("logits", "pred_boxes", "pred_masks")
def instance_masks_head(
    spec: HeadSpec, g: Body, queries: ir.Value, maps: dict[str, ir.Value]
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Scores of labels, a change of the box and a mask for each query (Robinson et al. 2025, 3).

    queries (B,Q,W), maps -> logits (B,Q,labels), pred_boxes (B,Q,4), pred_masks (B,Q,R,C).

    maps are `boxes` (B,Q,4), the image's `level` (B,r,c,W), and its pixels.
    """
    assert spec.instance_masks is not None
    op, masks = g.op, spec.instance_masks
    boxes, level, pixels = maps.values()
    logits = perceptron(g, "scores", masks.boxes.score_layers, queries)
    change = scaled if masks.boxes.scaled else refined
    pred_boxes = g.call(change, perceptron(g, "box", masks.boxes.box_layers, queries), boxes)
    size = op.Div(op.Shape(pixels, start=2), op.Constant(value_ints=[masks.ratio] * 2))
    x = g.call(bilinear, op.Transpose(level, perm=[0, 3, 1, 2]), size, name="places")  # (B, W, R, C)
    for number in range(masks.blocks):
        x = places_block(masks, g / f"blocks.{number}", x)
    projected = op.Conv(x, g.weight("places.weight"), g.weight("places.bias"), name="projected")
    cells = op.Reshape(projected, op.Constant(value_ints=[0, 0, -1]))  # (B, W, R*C)
    network = feed_forward(masks.network, g / "network", norm(masks.norm, g / "norm", queries))
    vectors = linear(True, g / "query", op.Add(queries, network))  # (B, Q, W)
    shape = op.Concat(op.Shape(queries, end=2), size, axis=0)
    pred_masks = op.Add(op.Reshape(op.MatMul(vectors, cells), shape), g.weight("bias"))
    return logits, pred_boxes, pred_masks


def outputs_of_maps(
    spec: HeadSpec, place: Place, x: ir.Value, maps: dict[str, ir.Value]
) -> dict[str, ir.Value]:
    """The graph's outputs: logits (B,Q,labels), pred_boxes (B,Q,4) and pred_masks (B,Q,R,C)."""
    logits, pred_boxes, pred_masks = instance_masks_head(spec, place, x, maps)
    return {names.LOGITS: logits, names.PRED_BOXES: pred_boxes, names.PRED_MASKS: pred_masks}
