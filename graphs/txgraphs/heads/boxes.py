"""Labels and boxes of an image's objects (Carion et al. 2020, 3.2)."""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.edges import edge_shares
from txgraphs.heads._transform import Tokens, Word
from txgraphs.linear import linear

LEAST = 1e-5  # of a share of the image that has a logit


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


@component("logits", "pred_boxes")
def refined_boxes_head(
    spec: HeadSpec, g: Body, x: ir.Value, references: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Scores of labels, and changes of the boxes that queries come with (Zhu et al. 2021, A.4).

    x (B,Q,W), references (B,Q,4) -> logits (B,Q,labels), pred_boxes (B,Q,4).
    """
    assert spec.boxes is not None
    logits = perceptron(g, "scores", spec.boxes.score_layers, x)
    change = scaled if spec.boxes.scaled else refined
    pred_boxes = g.call(change, perceptron(g, "box", spec.boxes.box_layers, x), references)
    return logits, pred_boxes


@component("logits", "pred_boxes")
def quality_boxes_head(
    spec: HeadSpec, g: Body, x: ir.Value, references: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Scores of labels plus a quality from the distributions of edges (Peng et al. 2024, A.1).

    x (B,Q,W), boxes and scores of edges (B,Q,4+4*(bins+1)) -> logits (B,Q,labels), boxes (B,Q,4).
    """
    assert spec.boxes is not None
    assert spec.boxes.quality is not None
    op, quality = g.op, spec.boxes.quality
    sizes = op.Constant(value_ints=[4, 4 * (quality.edges.bins + 1)])
    pred_boxes, edges = op.Split(references, sizes, axis=2, name=["boxes", "edges"])
    shares, count = g.call(edge_shares(quality.edges.bins), edges), op.Constant(value_ints=[quality.best])
    best, _ = op.TopK(shares, count, name=["best", "bins"])  # (B, Q, 4, best)
    total = op.ReduceSum(best, op.Constant(value_ints=[3]), keepdims=1)
    mean = op.Div(total, op.CastLike(op.Constant(value_float=float(quality.best)), total))
    flat = op.Constant(value_ints=[0, 0, 4 * (quality.best + 1)])
    numbers = op.Reshape(op.Concat(best, mean, axis=3), flat)  # (B, Q, 4*(best+1))
    scores = perceptron(g, "scores", spec.boxes.score_layers, x)
    logits = op.Add(scores, perceptron(g, "quality", quality.layers, numbers))
    return logits, pred_boxes


@script(domain, default_opset=op)
def refined(change, references):
    """Changes of logits, boxes (B,Q,4) -> boxes."""
    zero, one = op.Constant(value_float=0.0), op.Constant(value_float=1.0)
    least, unit = op.CastLike(op.Constant(value_float=LEAST), references), op.CastLike(one, references)
    within = op.Clip(references, op.CastLike(zero, references), unit)
    logits = op.Log(op.Max(within, least) / op.Max(unit - within, least))
    boxes = op.Sigmoid(change + logits)
    return boxes


@script(domain, default_opset=op)
def scaled(change, references):
    """Changes as shares of a box's sides and as logarithms of factors, boxes (B,Q,4) -> boxes.

    Girshick et al. 2014, C.
    """
    start, middle, end = (
        op.Constant(value_ints=[0]),
        op.Constant(value_ints=[2]),
        op.Constant(value_ints=[4]),
    )
    last = op.Constant(value_ints=[-1])
    moves, factors = op.Slice(change, start, middle, last), op.Slice(change, middle, end, last)
    centre, sides = op.Slice(references, start, middle, last), op.Slice(references, middle, end, last)
    boxes = op.Concat(moves * sides + centre, op.Exp(factors) * sides, axis=-1)
    return boxes


def perceptron(g: Body, part: str, layers: int, x: ir.Value) -> ir.Value:
    """x (...,W) through dense layers with ReLU between them."""
    for number in range(layers):
        x = linear(True, g / f"{part}.{number}", g.op.Relu(x) if number else x)
    return x


def outputs(spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word) -> dict[str, ir.Value]:
    """The graph's outputs: logits (B,Q,labels) and pred_boxes (B,Q,4); references in the mask's place."""
    assert spec.boxes is not None
    _, references = tokens
    if not spec.boxes.refined or references is None:
        logits, pred_boxes = boxes_head(spec, place, x)
    elif spec.boxes.quality is None:
        logits, pred_boxes = refined_boxes_head(spec, place, x, references)
    else:
        logits, pred_boxes = quality_boxes_head(spec, place, x, references)
    return {names.LOGITS: logits, names.PRED_BOXES: pred_boxes}
