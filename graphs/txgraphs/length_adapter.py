"""Layers that shorten the output of a stack: convolutions with a stride (Li et al. 2021, 3.1)."""

import onnx_ir as ir

from txexport.spec import AttentionSpec, BlockSpec, FeedForwardSpec, LengthAdapterSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.attention import attention
from txgraphs.feedforward import feed_forward
from txgraphs.gated_convolution import gated_convolution
from txgraphs.linear import linear
from txgraphs.mask import padding_mask
from txgraphs.norm import norm

HALF = 0.5  # of the output of the first feed-forward network


@component("shortened")
def shortened_mask(spec: LengthAdapterSpec, g: Body, mask: ir.Value) -> ir.Value:
    """The mask behind a convolution: 1 for as many vectors as its row would have without padding.

    mask (B,S) of 0 and 1 -> shortened (B,S').
    """
    op, zero, one = g.op, g.op.Constant(value_int=0), g.op.Constant(value_int=1)
    lengths = _after(spec, g, op.ReduceSum(mask, op.Constant(value_ints=[1]), keepdims=1))  # (B, 1)
    longest = _after(spec, g, op.Squeeze(op.Shape(mask, start=1, end=2)))
    order = op.Range(zero, longest, one, name="order")  # (S')
    shortened = op.Cast(op.Less(order, lengths), to=ir.DataType.INT64)  # (B, S')
    return shortened


def _after(spec: LengthAdapterSpec, g: Body, lengths: ir.Value) -> ir.Value:
    """The lengths behind a convolution; what is divided, which rounds towards zero, is not negative."""
    more = spec.stride + 2 * spec.padding - spec.kernel
    stride = g.op.Constant(value_int=spec.stride)
    after: ir.Value = g.op.Div(g.op.Add(lengths, g.op.Constant(value_int=more)), stride, name="lengths")
    return after


@component("y")
def adapter_block(spec: LengthAdapterSpec, g: Body, x: ir.Value, mask: ir.Value) -> ir.Value:
    """Attention over one convolution, with another as the residual, then feed-forward.

    x (B,S,W), mask (B,S') of the shortened vectors -> y (B,S',W).
    """
    block = spec.block
    assert isinstance(block, BlockSpec)
    assert isinstance(block.attention, AttentionSpec)
    assert isinstance(block.feed_forward, FeedForwardSpec)
    shape = spec.convolution
    residual = gated_convolution(
        *shape, g / "residual", norm(block.norm, g / "residual_norm", x)
    )  # (B, S', W)
    inner = gated_convolution(*shape, g / "convolution", norm(block.norm, g / "attention_norm", x))
    seen = g.call(padding_mask, mask, inner, name="mask")  # (B, 1, S', S')
    [mixed] = attention(block.attention, False, g / "attention", inner, seen, None, None)
    attended = g.op.Add(residual, mixed, name="attended")
    inner = norm(block.norm, g / "feed_forward_norm", attended)
    y = g.op.Add(attended, feed_forward(block.feed_forward, g / "feed_forward", inner))
    return y


@component("y")
def half_feed_forward(spec: FeedForwardSpec, g: Body, x: ir.Value) -> ir.Value:
    """Half of a feed-forward network's output, added to its input: x (B,S,W) -> y (B,S,W)."""
    half = g.op.CastLike(g.op.Constant(value_float=HALF), x)
    y = g.op.Add(x, g.op.Mul(half, feed_forward(spec, g / "feed_forward", x)))
    return y


def length_adapter(
    spec: LengthAdapterSpec, place: Place, x: ir.Value, mask: ir.Value | None
) -> tuple[ir.Value, ir.Value | None]:
    """All layers behind a stack.

    x (B,S,hidden_size), mask (B,S) -> y (B,S',W), mask (B,S'); None where there is none.
    """
    if spec.feed_forward is not None:
        x = half_feed_forward(spec.feed_forward, place / "before", x)
    if spec.norm is not None:
        x = norm(spec.norm, place / "norm", linear(True, place / "project", x))  # (B, S, W)
    for number in range(spec.num_layers):
        mask = None if mask is None else shortened_mask(spec, place, mask)
        if spec.block is None:
            x = gated_convolution(*spec.convolution, place / f"convolutions.{number}", x)
        else:
            assert mask is not None
            x = adapter_block(spec, place / f"layers.{number}", x, mask)
    return x, mask
