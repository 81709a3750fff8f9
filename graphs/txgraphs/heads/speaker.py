"""A speaker's vector by time-delay layers (Snyder et al. 2018)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word
from txgraphs.linear import linear


@component("logits", "embeddings")
def speaker_head(
    spec: HeadSpec, g: Body, x: ir.Value, attention_mask: ir.Value | None
) -> tuple[ir.Value, ir.Value]:
    """A speaker's vector by time-delay layers (Snyder et al. 2018, 2.1), and scores projected from it.

    x (B,S,W), attention_mask (B,S) or None -> logits (B,labels), embeddings (B,D).
    """
    assert spec.time_delay is not None
    op, delay = g.op, spec.time_delay
    frames = linear(True, g / "narrow", x)
    for number, (kernel, dilation) in enumerate(zip(delay.kernels, delay.dilations, strict=True)):
        frames = op.Relu(linear(True, g / f"layers.{number}", _beside(g, frames, kernel, dilation)))
    mean, deviation = _statistics(g, frames, attention_mask, delay.lost_without_dilation)
    embeddings = linear(True, g / "vector", op.Concat(mean, deviation, axis=1))
    logits = linear(True, g / "scores", embeddings)
    return logits, embeddings


def _beside(g: Body, frames: ir.Value, kernel: int, dilation: int) -> ir.Value:
    """Vectors (B,S,W), `kernel` of them concatenated, `dilation` apart -> (B, S - lost, kernel W)."""
    if kernel == 1:
        return frames
    op, parts = g.op, []
    for step in range(kernel):
        after = (kernel - 1 - step) * dilation
        end = op.Constant(value_ints=[-after]) if after else op.Shape(frames, start=1, end=2)
        start = op.Constant(value_ints=[step * dilation])
        parts.append(op.Slice(frames, start, end, op.Constant(value_ints=[1])))
    return op.Concat(*parts, axis=2)


def _statistics(
    g: Body, frames: ir.Value, attention_mask: ir.Value | None, uncounted: int
) -> tuple[ir.Value, ir.Value]:
    """Mean and standard deviation (B,W) over time, of vectors (B,S,W) that the mask lets pass.

    `uncounted` vectors at the end of each row are left out, as the originals do.
    """
    op, one = g.op, g.op.Constant(value_ints=[1])
    length = op.Shape(frames, start=1, end=2)  # (1)
    if attention_mask is None:
        weights, count = op.CastLike(one, frames), op.CastLike(length, frames)  # (1), (1)
    else:
        order = op.Range(op.Constant(value_int=0), op.Squeeze(length), op.Constant(value_int=1))  # (S)
        rows = op.Sub(op.ReduceSum(attention_mask, one), op.Constant(value_ints=[uncounted]))  # (B, 1)
        real = op.CastLike(op.Less(order, rows), frames)  # (B, S)
        weights = op.Unsqueeze(real, op.Constant(value_ints=[2]))  # (B, S, 1)
        count = op.ReduceSum(weights, one)  # (B, 1, 1)
    mean = op.ReduceSum(op.Mul(frames, op.Div(weights, count)), one)  # (B, 1, W)
    offsets, rest = op.Sub(frames, mean), op.Sub(count, op.CastLike(one, count))
    squares = op.Mul(op.Mul(offsets, offsets), op.Div(weights, rest))
    variance = op.ReduceSum(squares, one, keepdims=0)  # (B, W)
    return op.Squeeze(mean, one), op.Sqrt(variance)


def outputs(spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word) -> dict[str, ir.Value]:
    """The graph's outputs: logits (B,labels) and embeddings (B,D)."""
    logits, embeddings = speaker_head(spec, place, x, tokens[1])
    return {names.LOGITS: logits, names.EMBEDDINGS: embeddings}
