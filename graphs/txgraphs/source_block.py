"""A decoder's layer that attends to images in place of tokens (Alayrac et al. 2022, 2.2)."""

import onnx_ir as ir

from txexport.spec import BlockSpec, SourceAttentionSpec
from txgraphs._component import Body, component
from txgraphs.attention import cross_attention
from txgraphs.feedforward import feed_forward
from txgraphs.gate import gate
from txgraphs.norm import norm
from txgraphs.position import asked


@component("y")
def source_block(
    spec: BlockSpec,
    g: Body,
    x: ir.Value,
    mask: ir.Value,
    sees: ir.Value,
    k: ir.Value,
    v: ir.Value,
    logits_indices: ir.Value | None = None,
) -> ir.Value:
    """Attention over images, then feed-forward, each with a gate.

    x (B,S,W), mask (B,S,E), k and v (B,K,E,H) -> y (B,S,W). The network's output is added for tokens that
    each see an image, as `sees` (B,S,1) tells. With logits_indices (B,L), y (B,L,W) is of these tokens only.
    """
    op, kind = g.op, spec.attention
    assert isinstance(kind, SourceAttentionSpec)
    x, mask, sees = (asked(g, one, logits_indices) for one in (x, mask, sees))  # (B, L, ...)
    mask = op.Unsqueeze(mask, op.Constant(value_ints=[1]), name="mask")  # (B, 1, L, E)
    inner = norm(spec.norm, g / "attention_norm", x)
    (mixed,) = cross_attention(kind.attention, False, g / "attention", inner, mask, k, v)
    attended = op.Add(x, gate(g / "attention_tanh_gate", mixed), name="attended")  # (B, S, W)
    inner = norm(spec.norm, g / "feed_forward_norm", attended)
    fed = feed_forward(spec.feed_forward, g / "feed_forward", inner)
    fed = op.Mul(fed, op.Cast(sees, to=g.dtype), name="fed")
    return op.Add(attended, gate(g / "feed_forward_tanh_gate", fed))
