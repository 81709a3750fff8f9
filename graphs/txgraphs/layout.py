"""Words and their layout as two flows with one attention (Wang et al. 2022, LiLT)."""

import onnx_ir as ir

from txexport.spec import AttentionSpec, BlockSpec, FeedForwardSpec, LayoutEmbeddingSpec, LayoutFlowSpec
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.feedforward import feed_forward
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.page import box_tables
from txgraphs.scaled_dot_product_attention import scaled_dot_product_attention


@component("layout")
def layout_embedding(spec: LayoutEmbeddingSpec, g: Body, boxes: ir.Value, positions: ir.Value) -> ir.Value:
    """Vectors of boxes, projected, and of positions, added and normalised (Wang et al. 2022, 3.1.2).

    boxes (B,S,4), positions (B,S) or (1,S) -> layout (B,S,L).
    """
    op, rows = g.op, positions
    if spec.position.offset:  # as in `embedding`
        rows = op.Add(positions, op.Constant(value_int=spec.position.offset))
    projected = linear(True, g / "project", box_tables(spec.boxes, g / "boxes", boxes))
    placed = op.Add(projected, op.Gather(g.weight("position.weight"), rows), name="placed")
    return norm(spec.norm, g / "norm", placed)


@component("y", "layout", "weights")
def layout_block(
    spec: BlockSpec, weighted: bool, g: Body, x: ir.Value, layout: ir.Value, mask: ir.Value
) -> tuple[ir.Value, ...]:
    """A layer of words and of their layout, whose scores are added (Wang et al. 2022, 3.1.3).

    x (B,S,W), layout (B,S,L), mask (B,1,S,S) -> both, and where `weighted` weights (B,N,S,S).
    """
    assert spec.layout is not None
    heads, *weights = _mixed(spec, weighted, g, x, layout, mask)  # (B, N, S, H+h)
    sizes = g.op.Constant(value_ints=[spec.dense.head_dim, spec.layout.attention.head_dim])
    of_words, of_layout = g.op.Split(heads, sizes, axis=3, name=["of_words", "of_layout"])
    y = _ended(spec, g, "", x, of_words)
    moved = _ended(spec.layout, g, "layout.", layout, of_layout)
    return y, moved, *weights


@component("y", "weights")
def last_layout_block(
    spec: BlockSpec, weighted: bool, g: Body, x: ir.Value, layout: ir.Value, mask: ir.Value
) -> tuple[ir.Value, ...]:
    """As `layout_block`, of a layer in which the layout ends."""
    heads, *weights = _mixed(spec, weighted, g, x, layout, mask)  # (B, N, S, H)
    return _ended(spec, g, "", x, heads), *weights


def _mixed(
    spec: BlockSpec, weighted: bool, g: Body, x: ir.Value, layout: ir.Value, mask: ir.Value
) -> tuple[ir.Value, ...]:
    """Mixed values of words and, unless it ends, of layout side by side (B,N,S,H+h), and weights."""
    assert spec.layout is not None
    op, kind, layout_kind = g.op, spec.dense, spec.layout.attention
    # The queries of layout: attention divides by the square root of the words' head size.
    factor = op.Constant(value_float=(kind.head_dim / layout_kind.head_dim) ** 0.5)
    q = op.Concat(
        _heads(kind, g, "attention.q", x),
        op.Mul(_heads(layout_kind, g, "layout.attention.q", layout), factor, name="scaled"),
        axis=3,
        name="q",
    )  # (B, N, S, H+h)
    k = op.Concat(
        _heads(kind, g, "attention.k", x),
        _heads(layout_kind, g, "layout.attention.k", layout),
        axis=3,
        name="k",
    )
    v = _heads(kind, g, "attention.v", x)
    if not spec.layout.ends:
        v = op.Concat(v, _heads(layout_kind, g, "layout.attention.v", layout), axis=3, name="v")
    return scaled_dot_product_attention(kind, weighted, g, q, k, v, mask)


def _heads(kind: AttentionSpec, g: Body, name: str, x: ir.Value) -> ir.Value:
    """x (B,S,W) -> queries, keys or values (B,N,S,H)."""
    shape = g.op.Constant(value_ints=[0, 0, kind.num_heads, kind.head_dim])
    heads: ir.Value = g.call(split, linear(True, g / name, x), shape)
    return heads


def _ended(flow: BlockSpec | LayoutFlowSpec, g: Body, owner: str, x: ir.Value, heads: ir.Value) -> ir.Value:
    """The flow x (B,S,W) and its mixed values (B,N,S,H) -> y (B,S,W), in post-norm."""
    assert isinstance(flow.feed_forward, FeedForwardSpec)
    mixed = linear(True, g / f"{owner}attention.o", g.call(merge, heads))
    attended = norm(flow.norm, g / f"{owner}attention_norm", g.op.Add(x, mixed))  # (B, S, W)
    fed = feed_forward(flow.feed_forward, g / f"{owner}feed_forward", attended)
    return norm(flow.norm, g / f"{owner}feed_forward_norm", g.op.Add(attended, fed))
