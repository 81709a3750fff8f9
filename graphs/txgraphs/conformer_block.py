"""One layer of a Conformer."""

from collections.abc import Callable

import onnx_ir as ir

from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    FeedForwardSpec,
    RelativeKeyAttentionSpec,
    RotatedInputAttentionSpec,
    SignalStackSpec,
    SinusoidVectorsSpec,
    TransformerXLAttentionSpec,
)
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.attention import attention
from txgraphs.conformer_convolution import conformer_convolution
from txgraphs.feedforward import feed_forward
from txgraphs.norm import norm
from txgraphs.position import positions, rotation
from txgraphs.relative_key_attention import clipped_distances, relative_key_attention
from txgraphs.rotated_input_attention import rotated_input_attention
from txgraphs.transformer_xl_attention import sinusoid_vectors, transformer_xl_attention

Values = dict[str, ir.Value | None]

ATTENTIONS: dict[type, Callable[..., tuple[ir.Value, ...]]] = {
    AttentionSpec: attention,
    TransformerXLAttentionSpec: transformer_xl_attention,
    RelativeKeyAttentionSpec: relative_key_attention,
    RotatedInputAttentionSpec: rotated_input_attention,
}
HALF = 0.5  # of the output of each feed-forward network


def distance_context(spec: SignalStackSpec, graph: Graph, x: ir.Value) -> dict[BlockSpec, Values]:
    """x (B,S,W) -> for each Conformer block the inputs of its attention that distances alone determine."""
    contexts: dict[BlockSpec, Values] = {}
    for block in spec.blocks:
        if block.convolution is None:
            continue
        match block.attention:
            case RelativeKeyAttentionSpec() as kind:
                contexts[block] = {"of_query": graph.call(clipped_distances(kind), x, name="of_query")}
            case TransformerXLAttentionSpec() as kind:
                assert isinstance(spec.relative, SinusoidVectorsSpec)
                sinusoids = sinusoid_vectors(spec.relative, graph.dtype)
                vectors, of_query = graph.call(sinusoids, x, name="vectors")
                contexts[block] = {"vectors": vectors, "of_query": of_query}
            case RotatedInputAttentionSpec() as kind:
                start = graph.op.Expand(graph.constant("start", [0]), graph.op.Shape(x, start=0, end=1))
                order = graph.call(positions, x, start, name="order")  # (B, S)
                cos, sin = graph.call(rotation(kind.rotary, graph.dtype), order, name="rotation")
                contexts[block] = {"cos": cos, "sin": sin}
            case AttentionSpec():
                contexts[block] = {"cos": None, "sin": None}
    return contexts


@component("y", "weights")
def conformer_block(
    spec: BlockSpec,
    weighted: bool,
    g: Body,
    x: ir.Value,
    attention_mask: ir.Value | None,
    **context: ir.Value | None,
) -> tuple[ir.Value, ...]:
    """Half feed-forward, attention, convolution, half feed-forward, norm (Gulati et al. 2020, 2.4).

    x (B,S,W), attention_mask (B,S), the other inputs of attention -> y (B,S,W), and if `weighted` weights
    (B,N,S,S).
    """
    assert isinstance(spec.feed_forward, FeedForwardSpec)
    op = g.op
    half = op.CastLike(op.Constant(value_float=HALF), x)
    fed = feed_forward(spec.feed_forward, g / "feed_forward", norm(spec.norm, g / "feed_forward_norm", x))
    x = op.Add(x, op.Mul(half, fed), name="fed")  # (B, S, W)
    inner = norm(spec.norm, g / "attention_norm", x)
    mixed, *weights = ATTENTIONS[type(spec.attention)](
        spec.attention, weighted, g / "attention", inner, **context
    )
    x = op.Add(x, mixed, name="attended")
    inner = norm(spec.norm, g / "convolution_norm", x)
    x = op.Add(x, conformer_convolution(spec.convolution, g / "convolution", inner, attention_mask))
    inner = norm(spec.norm, g / "last_feed_forward_norm", x)
    fed = feed_forward(spec.feed_forward, g / "last_feed_forward", inner)
    y = norm(spec.norm, g / "final_norm", op.Add(x, op.Mul(half, fed)))
    return y, *weights
