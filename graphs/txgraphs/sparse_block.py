"""One layer of a stack whose attention reads masks of tokens: each sublayer in its residual and its norm."""

from collections.abc import Callable

import onnx_ir as ir
from onnxscript import OnnxFunction

from txexport.spec import (
    BlockSpec,
    ExpertsSpec,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    NormPlacement,
    StridedAttentionSpec,
)
from txgraphs._graph import Graph
from txgraphs.experts import experts
from txgraphs.feedforward import feed_forward
from txgraphs.linformer_attention import linformer_attention
from txgraphs.local_attention import local_attention
from txgraphs.longformer_attention import longformer_attention
from txgraphs.low_rank_attention import low_rank_attention
from txgraphs.norm import norm
from txgraphs.strided_attention import strided_attention

ATTENTIONS: dict[type, Callable[..., OnnxFunction]] = {
    LocalAttentionSpec: local_attention,
    StridedAttentionSpec: strided_attention,
    LongformerAttentionSpec: longformer_attention,
    LinformerAttentionSpec: linformer_attention,
    LowRankAttentionSpec: low_rank_attention,
}


def sparse_encoder_block(
    spec: BlockSpec, graph: Graph, under: str, x: ir.Value, *masks: ir.Value
) -> ir.Value:
    """Attention of less than quadratic cost, then feed-forward: x (B,S,W), token masks (B,S) -> y (B,S,W).

    Calls in the graph, not a function: each attention has parameters of its own, and a function would list
    those of all.
    """
    op, attend = graph.builder.op, ATTENTIONS[type(spec.attention)](spec.attention)
    post, sandwich = spec.placement == NormPlacement.POST, spec.placement == NormPlacement.SANDWICH

    def normed(value: ir.Value, name: str) -> ir.Value:
        return graph.call(norm(spec.norm), value, under=f"{under}.{name}")

    def added(source: ir.Value, value: ir.Value, name: str) -> ir.Value:
        """What a sublayer makes of its input, in its second norm, its scale and its residual."""
        if sandwich:
            value = normed(value, f"{name}_post_norm")
        if spec.layer_scale:
            value = op.Mul(value, graph.weight(f"{under}.{name}_scale.weight"))
        value = op.Add(source, value)  # (B, S, W)
        return normed(value, f"{name}_norm") if post else value

    inner = x if post or spec.skip_attention_norm else normed(x, "attention_norm")
    mixed = graph.call(attend, inner, *masks, under=f"{under}.attention")
    attended = added(x, mixed, "attention")
    source = x if spec.placement == NormPlacement.PARALLEL else attended
    inner = source if post else normed(source, "feed_forward_norm")
    if isinstance(spec.feed_forward, ExpertsSpec):
        fed = experts(spec.feed_forward, graph, inner, f"{under}.feed_forward")
    else:
        fed = graph.call(feed_forward(spec.feed_forward), inner, under=f"{under}.feed_forward")
    y = added(attended, fed, "feed_forward")
    return y
