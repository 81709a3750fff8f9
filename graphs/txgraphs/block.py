"""One layer of a stack: each sublayer in its residual and its norm."""

from functools import cache as memo

from onnxscript import OnnxFunction, script

from txexport.spec import BlockSpec, Cache, ExpertsSpec, FeedForwardSpec, NormPlacement
from txgraphs import domain, op
from txgraphs.attention import attention, cached_attention, cross_attention
from txgraphs.feedforward import feed_forward
from txgraphs.norm import norm


@memo
def encoder_block(spec: BlockSpec) -> OnnxFunction:
    """Attention over the whole sequence, then feed-forward (Vaswani et al. 2017, 3.1).

    A mixture of experts is not in the function: it comes after.
    """
    attend, feed, normalise = attention(spec.dense), _feed_forward(spec), norm(spec.norm)
    post, parallel, sandwich = _placement(spec)
    direct, scaled, whole = (
        post or spec.skip_attention_norm,
        spec.layer_scale,
        isinstance(spec.feed_forward, FeedForwardSpec),
    )

    @script(domain, default_opset=op)
    def encoder_block(
        x,
        mask,
        cos,
        sin,
        attention_q_weight,
        attention_q_bias,
        attention_k_weight,
        attention_k_bias,
        attention_v_weight,
        attention_v_bias,
        attention_o_weight,
        attention_o_bias,
        attention_q_norm_weight,
        attention_q_norm_bias,
        attention_k_norm_weight,
        attention_k_norm_bias,
        attention_norm_weight,
        attention_norm_bias,
        attention_post_norm_weight,
        attention_post_norm_bias,
        attention_scale_weight,
        feed_forward_up_weight,
        feed_forward_up_bias,
        feed_forward_gate_weight,
        feed_forward_gate_bias,
        feed_forward_down_weight,
        feed_forward_down_bias,
        feed_forward_norm_weight,
        feed_forward_norm_bias,
        feed_forward_post_norm_weight,
        feed_forward_post_norm_bias,
        feed_forward_scale_weight,
    ):
        if direct:
            inner = x
        else:
            inner = normalise(x, attention_norm_weight, attention_norm_bias)
        mixed = attend(
            inner,
            mask,
            cos,
            sin,
            attention_q_weight,
            attention_q_bias,
            attention_k_weight,
            attention_k_bias,
            attention_v_weight,
            attention_v_bias,
            attention_o_weight,
            attention_o_bias,
            attention_q_norm_weight,
            attention_q_norm_bias,
            attention_k_norm_weight,
            attention_k_norm_bias,
        )
        if sandwich:
            mixed = normalise(mixed, attention_post_norm_weight, attention_post_norm_bias)
        if scaled:
            mixed = mixed * attention_scale_weight
        attended = x + mixed  # (B, S, W)
        if post:
            attended = normalise(attended, attention_norm_weight, attention_norm_bias)
        if parallel:
            source = x
        else:
            source = attended
        if whole:
            if post:
                inner = source
            else:
                inner = normalise(source, feed_forward_norm_weight, feed_forward_norm_bias)
            fed = feed(
                inner,
                feed_forward_up_weight,
                feed_forward_up_bias,
                feed_forward_gate_weight,
                feed_forward_gate_bias,
                feed_forward_down_weight,
                feed_forward_down_bias,
            )
            if sandwich:
                fed = normalise(fed, feed_forward_post_norm_weight, feed_forward_post_norm_bias)
            if scaled:
                fed = fed * feed_forward_scale_weight
            y = attended + fed  # (B, S, W)
            if post:
                y = normalise(y, feed_forward_norm_weight, feed_forward_norm_bias)
        else:
            y = op.Identity(source)
        return y

    return encoder_block


@memo
def decoder_block(spec: BlockSpec, cache: Cache) -> OnnxFunction:
    """Attention over a cache, over the encoder where there is one, then feed-forward.

    A mixture of experts is not in the function: it comes after.
    """
    attend, feed, normalise = (
        cached_attention(spec.dense, cache),
        _feed_forward(spec),
        norm(spec.norm),
    )
    cross = spec.cross_attention is not None
    look = cross_attention(spec.cross_attention or spec.dense)
    post, parallel, sandwich = _placement(spec)
    direct, scaled, whole = (
        post or spec.skip_attention_norm,
        spec.layer_scale,
        isinstance(spec.feed_forward, FeedForwardSpec),
    )

    @script(domain, default_opset=op)
    def decoder_block(
        x,
        mask,
        cos,
        sin,
        cache_lengths,
        past_k,
        past_v,
        cross_mask,
        cross_k,
        cross_v,
        attention_q_weight,
        attention_q_bias,
        attention_k_weight,
        attention_k_bias,
        attention_v_weight,
        attention_v_bias,
        attention_o_weight,
        attention_o_bias,
        attention_q_norm_weight,
        attention_q_norm_bias,
        attention_k_norm_weight,
        attention_k_norm_bias,
        attention_norm_weight,
        attention_norm_bias,
        attention_post_norm_weight,
        attention_post_norm_bias,
        attention_scale_weight,
        cross_attention_q_weight,
        cross_attention_q_bias,
        cross_attention_o_weight,
        cross_attention_o_bias,
        cross_attention_norm_weight,
        cross_attention_norm_bias,
        feed_forward_up_weight,
        feed_forward_up_bias,
        feed_forward_gate_weight,
        feed_forward_gate_bias,
        feed_forward_down_weight,
        feed_forward_down_bias,
        feed_forward_norm_weight,
        feed_forward_norm_bias,
        feed_forward_post_norm_weight,
        feed_forward_post_norm_bias,
        feed_forward_scale_weight,
    ):
        if direct:
            inner = x
        else:
            inner = normalise(x, attention_norm_weight, attention_norm_bias)
        mixed, k, v = attend(
            inner,
            mask,
            cos,
            sin,
            cache_lengths,
            past_k,
            past_v,
            attention_q_weight,
            attention_q_bias,
            attention_k_weight,
            attention_k_bias,
            attention_v_weight,
            attention_v_bias,
            attention_o_weight,
            attention_o_bias,
            attention_q_norm_weight,
            attention_q_norm_bias,
            attention_k_norm_weight,
            attention_k_norm_bias,
        )
        if sandwich:
            mixed = normalise(mixed, attention_post_norm_weight, attention_post_norm_bias)
        if scaled:
            mixed = mixed * attention_scale_weight
        attended = x + mixed  # (B, S, W)
        if post:
            attended = normalise(attended, attention_norm_weight, attention_norm_bias)
        if cross:
            if post:
                inner = attended
            else:
                inner = normalise(attended, cross_attention_norm_weight, cross_attention_norm_bias)
            crossed = look(
                inner,
                cross_mask,
                cross_k,
                cross_v,
                cross_attention_q_weight,
                cross_attention_q_bias,
                cross_attention_o_weight,
                cross_attention_o_bias,
            )
            attended = attended + crossed  # (B, S, W)
            if post:
                attended = normalise(attended, cross_attention_norm_weight, cross_attention_norm_bias)
        if parallel:
            source = x
        else:
            source = attended
        if whole:
            if post:
                inner = source
            else:
                inner = normalise(source, feed_forward_norm_weight, feed_forward_norm_bias)
            fed = feed(
                inner,
                feed_forward_up_weight,
                feed_forward_up_bias,
                feed_forward_gate_weight,
                feed_forward_gate_bias,
                feed_forward_down_weight,
                feed_forward_down_bias,
            )
            if sandwich:
                fed = normalise(fed, feed_forward_post_norm_weight, feed_forward_post_norm_bias)
            if scaled:
                fed = fed * feed_forward_scale_weight
            y = attended + fed  # (B, S, W)
            if post:
                y = normalise(y, feed_forward_norm_weight, feed_forward_norm_bias)
        else:
            y = op.Identity(source)
        return y, k, v

    return decoder_block


def _placement(spec: BlockSpec) -> tuple[bool, bool, bool]:
    """Whether norms stand after a sublayer's sum, parallel sublayers, or both sides of a sublayer."""
    post, parallel, sandwich = (
        spec.placement == kind
        for kind in (NormPlacement.POST, NormPlacement.PARALLEL, NormPlacement.SANDWICH)
    )
    return post, parallel, sandwich


def _feed_forward(spec: BlockSpec) -> OnnxFunction:
    inner = spec.feed_forward
    return feed_forward(inner.expert if isinstance(inner, ExpertsSpec) else inner)
