"""Checks of layers with states, and of what all stacks of equal width share."""

from collections.abc import Iterable
from typing import Any

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.bottleneck import BottleneckSpec
from txexport.spec.enums import NormPlacement
from txexport.spec.feed_forward import FeedForwardSpec
from txexport.spec.grid_attention import GridAttentionSpec
from txexport.spec.latent_attention import MaskedAttentionSpec
from txexport.spec.reduced_attention import ConvolvedFeedForwardSpec, ReducedAttentionSpec
from txexport.spec.rwkv import ChannelMixSpec, TimeMixSpec
from txexport.spec.source_attention import SourceAttentionSpec
from txexport.spec.window_attention import WindowAttentionSpec

OF_GRIDS = (WindowAttentionSpec, GridAttentionSpec, ReducedAttentionSpec, ConvolvedFeedForwardSpec)


def check_layers(stack: Any) -> None:
    """Raise SpecError if blocks, their number, the embedding and the final norm contradict each other."""
    positive(stack, "num_layers")
    name, width = type(stack).__name__, stack.hidden_size
    if not 1 <= len(stack.blocks) <= stack.num_layers:
        raise SpecError(f"{name}: {len(stack.blocks)} blocks for {stack.num_layers} layers")
    for block in stack.blocks:
        for part in (block.attention, block.feed_forward):
            if isinstance(part, OF_GRIDS):
                raise SpecError(f"{name}: {type(part).__name__} reads a grid, expected a StagedStackSpec")
        if block.attention.hidden_size != width:
            raise SpecError(
                f"{name}: the embedding is {width} wide, its blocks {block.attention.hidden_size}"
            )
    if stack.final_norm is not None and stack.final_norm.size != width:
        raise SpecError(f"{name}: final norm is {stack.final_norm.size} wide, the stack {width}")


def check_no_crossing(owner: object, blocks: Iterable[Any]) -> None:
    """Raise SpecError for layers with cross attention, where there is no other stack to attend to."""
    if any(block.cross_attention is not None for block in blocks):
        raise SpecError(
            f"{type(owner).__name__}: a block has cross attention, but nothing to attend to; expected None"
        )


def check_gated(block: Any) -> None:
    """Raise SpecError for a layer with gates, or one that attends to images, whose other parts do not fit."""
    crosses = isinstance(block.attention, SourceAttentionSpec)
    plain = block.placement == NormPlacement.PRE and isinstance(block.feed_forward, FeedForwardSpec)
    others = block.cross_attention, block.beside, block.adapter, block.convolution, block.layer_input
    switches = block.layer_scale, block.output_scale, block.skip_attention_norm, block.residual_scale != 1
    fits = plain and not any(others) and not any(switches) and (block.gated or not crosses)
    if (block.gated or crosses) and not fits:
        raise SpecError(
            f"BlockSpec: gated={block.gated} with {type(block.attention).__name__}, placement "
            f"'{block.placement}' and {type(block.feed_forward).__name__}; expected a plain layer of "
            f"attention and FeedForwardSpec, '{NormPlacement.PRE}', and gates where it attends to images"
        )


def check_layout(block: Any) -> None:
    """Raise SpecError for a layer with a flow of layout whose other parts do not fit."""
    if block.layout is None:
        return
    kind, heads = block.attention, block.layout.attention.num_heads
    plain = isinstance(kind, AttentionSpec) and kind == AttentionSpec(
        kind.hidden_size, kind.num_heads, kind.num_heads, kind.head_dim, causal=False
    )
    fits = plain and block.placement == NormPlacement.POST and isinstance(block.feed_forward, FeedForwardSpec)
    if not fits or block.sublayers != ("attention", "feed_forward", "layout") or block.gated:
        raise SpecError(
            f"BlockSpec: a layout with {type(kind).__name__}, placement '{block.placement}' and "
            f"{', '.join(block.sublayers)}; expected plain bidirectional attention, FeedForwardSpec and "
            f"'{NormPlacement.POST}' alone"
        )
    if heads != kind.num_heads:
        raise SpecError(f"BlockSpec: layout has {heads} heads, attention {kind.num_heads}; expected as many")


def check_joined(block: Any) -> None:
    """Raise SpecError for a layer that joins embeddings, or reads wider vectors, whose parts do not fit."""
    kind = block.attention
    read = kind.input_size if isinstance(kind, AttentionSpec) else None
    if not block.joins_embedding:
        if read is not None:
            raise SpecError(
                f"BlockSpec: attention.input_size is {read}, expected None in a layer without joins_embedding"
            )
        return
    switches = block.layer_scale, block.output_scale, block.skip_attention_norm, block.residual_scale != 1
    others = block.adapter, block.layer_input, block.cross_attention, block.layout, block.gated or None
    plain = isinstance(block.feed_forward, FeedForwardSpec) and block.beside is not None
    fits = plain and not any(switches) and not any(one is not None for one in others)
    if not fits or read != 2 * kind.hidden_size:
        raise SpecError(
            f"BlockSpec: joins_embedding with {type(kind).__name__}, an input_size of {read}, "
            f"{type(block.feed_forward).__name__} and {', '.join(block.sublayers)}; expected attention over "
            f"{2 * kind.hidden_size} numbers, FeedForwardSpec, a sublayer beside and no other part"
        )


def check_mixing(block: Any) -> None:
    """Raise SpecError for a layer with time mixing or channel mixing whose other parts do not fit."""
    attention, network = block.attention, block.feed_forward
    if not isinstance(attention, TimeMixSpec) and not isinstance(network, ChannelMixSpec):
        return
    both = isinstance(attention, TimeMixSpec) and isinstance(network, ChannelMixSpec)
    switches = block.skip_attention_norm, block.residual_scale != 1, block.gated
    plain = block.placement == NormPlacement.PRE and block.sublayers == ("attention", "feed_forward")
    if not both or not plain or any(switches):
        raise SpecError(
            f"BlockSpec: {type(attention).__name__} with {type(network).__name__}, placement "
            f"'{block.placement}' and {', '.join(block.sublayers)}; expected TimeMixSpec with "
            f"ChannelMixSpec, '{NormPlacement.PRE}' and no other part"
        )


def check_states(block: Any) -> None:
    """Raise SpecError for a layer with states whose other parts are not supported with them."""
    attention, stateful = type(block.attention).__name__, type(block.beside or block.attention).__name__
    if block.states and (block.cross_attention is not None or block.adapter is not None):
        raise SpecError(
            f"BlockSpec: {stateful} with cross attention or an adapter; no architecture has both: "
            "expected None"
        )
    bottleneck = isinstance(block.attention, BottleneckSpec)
    if bottleneck and (block.feed_forward is not None or block.placement != NormPlacement.POST):
        raise SpecError(
            f"BlockSpec: {attention} with a network of its own or placement '{block.placement}'; it has its "
            f"networks within: expected None and '{NormPlacement.POST}'"
        )
    one_sublayer = block.feed_forward is None and not bottleneck
    if one_sublayer and block.placement != NormPlacement.PRE:
        raise SpecError(
            f"BlockSpec: feed_forward is None with {attention}, placement '{block.placement}'; expected a "
            f"network, or '{NormPlacement.PRE}'"
        )
    if block.states and (block.layer_input is not None or block.output_scale or block.layer_scale):
        raise SpecError(
            f"BlockSpec: {stateful} with layer_input, output_scale or layer_scale; no architecture has both: "
            "expected None, False and False"
        )
    masked = isinstance(block.attention, MaskedAttentionSpec) and block.has_keys
    if block.beside is not None and not (masked and block.placement == NormPlacement.PRE):
        raise SpecError(
            f"BlockSpec: {stateful} beside {attention}, placement '{block.placement}'; expected attention "
            f"with keys and values, '{NormPlacement.PRE}'"
        )
