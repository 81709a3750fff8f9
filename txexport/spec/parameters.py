"""Names and shapes of a block's parameters, in the order in which the components declare them.

A matrix is (out, in), as PyTorch keeps it.
"""

from typing import assert_never

from txexport.spec import BlockSpec, ExpertsSpec, FeedForwardSpec, NormPlacement
from txexport.spec.attention_parameters import attention, cross_attention
from txexport.spec.shapes import Shapes, linear, norm, under


def feed_forward(spec: FeedForwardSpec | ExpertsSpec) -> Shapes:
    """One network, or a mixture of them."""
    match spec:
        case FeedForwardSpec():
            return dense_feed_forward(spec)
        case ExpertsSpec():
            return experts(spec)
        case _:
            assert_never(spec)


def dense_feed_forward(spec: FeedForwardSpec) -> Shapes:
    """The projections up and down, and the gate's."""
    up = linear(spec.hidden_size, spec.intermediate_size, spec.bias)
    down = linear(spec.intermediate_size, spec.hidden_size, spec.bias)
    return under("up", up) | (under("gate", up) if spec.gated else {}) | under("down", down)


def experts(spec: ExpertsSpec) -> Shapes:
    """The router, every expert, and the shared one with its router."""
    shapes = under("router", linear(spec.hidden_size, spec.num_experts, spec.router_bias))
    if spec.corrected:
        shapes["router.correction"] = (spec.num_experts,)
    if spec.output_bias:
        shapes["bias"] = (spec.hidden_size,)
    for number in range(spec.num_experts):
        shapes |= under(f"experts.{number}", dense_feed_forward(spec.expert))
    if spec.shared is not None:
        if spec.shared_gated:
            shapes |= under("shared_router", linear(spec.hidden_size, 1, False))
        shapes |= under("shared", dense_feed_forward(spec.shared))
    return shapes


def block(spec: BlockSpec) -> Shapes:
    """One layer: each sublayer with its norms and its scale."""
    sandwich = spec.placement == NormPlacement.SANDWICH
    scale: Shapes = {"weight": (spec.attention.hidden_size,)} if spec.layer_scale else {}
    shapes = under("attention", attention(spec.attention))
    if not spec.skip_attention_norm:
        shapes |= under("attention_norm", norm(spec.norm))
    if sandwich or spec.placement == NormPlacement.DOUBLE_POST:
        shapes |= under("attention_post_norm", norm(spec.norm))
    shapes |= under("attention_scale", scale)
    if spec.cross_attention is not None:
        shapes |= under("cross_attention", cross_attention(spec.cross_attention))
        shapes |= under("cross_attention_norm", norm(spec.norm))
    shapes |= under("feed_forward", feed_forward(spec.feed_forward))
    shapes |= under("feed_forward_norm", norm(spec.norm))
    if sandwich:
        shapes |= under("feed_forward_post_norm", norm(spec.norm))
    shapes |= under("feed_forward_scale", scale)
    return shapes
