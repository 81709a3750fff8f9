"""Layers over a grid of vectors: attention to fewer keys, and networks that read the neighbours."""

import onnx_ir as ir

from txexport.spec import ConvolvedFeedForwardSpec, ReducedAttentionSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.attention import merge, split
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.scaled_dot_product_attention import plain_mix


@component("y")
def reduced_attention(spec: ReducedAttentionSpec, g: Body, x: ir.Value) -> ir.Value:
    """Attention of every vector of a grid to the keys of a smaller one (Wang et al. 2021, 3.3).

    x (B,R,C,W) -> y (B,R,C,W); every vector attends to T keys, those of the reduced grid.
    """
    op, read = g.op, x
    if spec.norm is not None:
        sides, weights = [spec.reduction] * 2, (g.weight("reduce.weight"), g.weight("reduce.bias"))
        channels = op.Transpose(x, perm=[0, 3, 1, 2])
        reduced = op.Conv(channels, *weights, kernel_shape=sides, strides=sides, name="reduced")
        read = norm(spec.norm, g / "reduced_norm", op.Transpose(reduced, perm=[0, 2, 3, 1]))  # (B, R', C', W)
    heads = op.Constant(value_ints=[0, -1, spec.num_heads, spec.head_dim])
    q = g.call(split, linear(spec.bias, g / "q", x), heads)  # (B, N, S, H)
    k = g.call(split, linear(spec.bias, g / "k", read), heads)  # (B, N, T, H)
    v = g.call(split, linear(spec.bias, g / "v", read), heads)
    mixed = g.call(merge, g.call(plain_mix, q, k, v, scale=spec.head_dim**-0.5), name="mixed")  # (B, S, N*H)
    y = op.Reshape(linear(True, g / "o", mixed), op.Shape(x), name="grid")  # (B, R, C, W)
    return y


@component("y")
def convolved_feed_forward(spec: ConvolvedFeedForwardSpec, g: Body, x: ir.Value) -> ir.Value:
    """A network that convolves the grid of its inner vectors, each channel alone (Xie et al. 2021, 3.1).

    x (B,R,C,W) -> y (B,R,C,W).
    """
    op, around = g.op, [spec.kernel // 2] * 4
    channels = op.Transpose(linear(True, g / "up", x), perm=[0, 3, 1, 2])  # (B, F, R, C)
    weights = g.weight("convolution.weight"), g.weight("convolution.bias")
    convolved = op.Conv(channels, *weights, pads=around, group=spec.intermediate_size, name="convolved")
    wide = g.call(activation(spec.activation), op.Transpose(convolved, perm=[0, 2, 3, 1]), name="wide")
    y = linear(True, g / "down", wide)
    return y
