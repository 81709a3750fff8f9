"""Layers in which prompts and the places of an image attend to each other."""

import onnx_ir as ir

from txexport.spec import FeedForwardSpec, TwoWaySpec
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.feedforward import feed_forward
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.scaled_dot_product_attention import plain_mix


@component("y")
def narrow_attention(
    spec: TwoWaySpec, reduction: int, g: Body, queries: ir.Value, keys: ir.Value, values: ir.Value
) -> ir.Value:
    """Attention whose inner width is `reduction` times smaller (Kirillov et al. 2023, A).

    queries (B,S,W), keys and values (B,T,W) -> y (B,S,W).
    """
    size = spec.hidden_size // reduction // spec.num_heads
    heads = g.op.Constant(value_ints=[0, 0, spec.num_heads, size])
    q = g.call(split, linear(True, g / "q", queries), heads)
    k = g.call(split, linear(True, g / "k", keys), heads)
    v = g.call(split, linear(True, g / "v", values), heads)
    mixed = g.call(merge, g.call(plain_mix, q, k, v, scale=size**-0.5), name="mixed")
    y = linear(True, g / "o", mixed)
    return y


@component("x", "image")
def two_way_layer(
    spec: TwoWaySpec,
    first: bool,
    g: Body,
    x: ir.Value,
    image: ir.Value,
    prompts: ir.Value,
    positions: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Prompts attend to themselves, then to the image; the image attends to them (Kirillov et al. 2023, A).

    x and its first value prompts (B,T,W), image and positions (B,S,W) -> x, image. In the `first` layer, the
    output of self-attention replaces the prompts.
    """
    op = g.op
    if first:
        x = narrow_attention(spec, 1, g / "self_attention", x, x, x)
    else:
        query = op.Add(x, prompts)
        x = op.Add(x, narrow_attention(spec, 1, g / "self_attention", query, query, x))
    x = norm(spec.norm, g / "self_attention_norm", x)
    placed = op.Add(image, positions)
    attended = narrow_attention(spec, spec.reduction, g / "to_image", op.Add(x, prompts), placed, image)
    x = norm(spec.norm, g / "to_image_norm", op.Add(x, attended))
    network = FeedForwardSpec(spec.hidden_size, spec.intermediate_size, spec.activation)
    x = norm(spec.norm, g / "feed_forward_norm", op.Add(x, feed_forward(network, g / "feed_forward", x)))
    attended = narrow_attention(spec, spec.reduction, g / "to_prompts", placed, op.Add(x, prompts), x)
    return x, norm(spec.norm, g / "to_prompts_norm", op.Add(image, attended))


@component("x", "image")
def two_way(
    spec: TwoWaySpec, g: Body, prompts: ir.Value, image: ir.Value, positions: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Every layer, and a last attention of the prompts to the image (Kirillov et al. 2023, A).

    prompts (B,T,W), image and positions (B,S,W) -> x (B,T,W), image (B,S,W).
    """
    x = prompts
    for layer in range(spec.num_layers):
        x, image = two_way_layer(spec, layer == 0, g / f"layers.{layer}", x, image, prompts, positions)
    placed = g.op.Add(image, positions)
    attended = narrow_attention(spec, spec.reduction, g / "to_image", g.op.Add(x, prompts), placed, image)
    x = norm(spec.final_norm, g / "final_norm", g.op.Add(x, attended))
    return x, image
