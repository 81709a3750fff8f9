"""Layers in which prompts and the places of an image attend to each other."""

from collections.abc import Callable
from functools import partial

import onnx_ir as ir

from txexport.spec import FeedForwardSpec, TwoWaySpec
from txgraphs._component import Body, component
from txgraphs.feedforward import feed_forward
from txgraphs.norm import norm
from txgraphs.separate_attention import separate_attention


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
    op, of_self, crossed = g.op, _attention(spec, 1), _attention(spec, spec.reduction)
    if first:
        x = of_self(g / "self_attention", x, x, x)
    else:
        query = op.Add(x, prompts)
        x = op.Add(x, of_self(g / "self_attention", query, query, x))
    x = norm(spec.norm, g / "self_attention_norm", x)
    placed = op.Add(image, positions)
    attended = crossed(g / "to_image", op.Add(x, prompts), placed, image)
    x = norm(spec.norm, g / "to_image_norm", op.Add(x, attended))
    network = FeedForwardSpec(spec.hidden_size, spec.intermediate_size, spec.activation)
    x = norm(spec.norm, g / "feed_forward_norm", op.Add(x, feed_forward(network, g / "feed_forward", x)))
    attended = crossed(g / "to_prompts", placed, op.Add(x, prompts), x)
    return x, norm(spec.norm, g / "to_prompts_norm", op.Add(image, attended))


def _attention(spec: TwoWaySpec, reduction: int) -> Callable[..., ir.Value]:
    """Attention whose inner width is `reduction` times smaller."""
    return partial(separate_attention, spec.num_heads, spec.hidden_size // reduction)


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
    placed, prompted = g.op.Add(image, positions), g.op.Add(x, prompts)
    attended = _attention(spec, spec.reduction)(g / "to_image", prompted, placed, image)
    x = norm(spec.final_norm, g / "final_norm", g.op.Add(x, attended))
    return x, image
