"""Labels and boxes of an image's objects (Carion et al. 2020, 3.2)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word
from txgraphs.linear import linear


@component("logits", "pred_boxes")
def boxes_head(spec: HeadSpec, g: Body, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Scores of labels and a box for each of the last vectors, the queries (Carion et al. 2020, 3.2).

    x (B,S,W) -> logits (B,Q,labels), pred_boxes (B,Q,4).
    """
    assert spec.boxes is not None
    op = g.op
    start, end = op.Constant(value_ints=[-spec.boxes.queries]), op.Shape(x, start=1, end=2)
    queries = op.Slice(x, start, end, op.Constant(value_ints=[1]), name="queries")  # (B, Q, W)
    logits = perceptron(g, "scores", spec.boxes.score_layers, queries)
    pred_boxes = op.Sigmoid(perceptron(g, "box", spec.boxes.box_layers, queries))
    return logits, pred_boxes


def perceptron(g: Body, part: str, layers: int, x: ir.Value) -> ir.Value:
    """x (...,W) through dense layers with ReLU between them."""
    for number in range(layers):
        x = linear(True, g / f"{part}.{number}", g.op.Relu(x) if number else x)
    return x


def outputs(spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word) -> dict[str, ir.Value]:
    """The graph's outputs: logits (B,Q,labels) and pred_boxes (B,Q,4)."""
    logits, pred_boxes = boxes_head(spec, place, x)
    return {names.LOGITS: logits, names.PRED_BOXES: pred_boxes}
