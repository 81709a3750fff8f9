"""Names and shapes of what efficient attention has, in the order in which components declare them."""

from txexport.spec.efficient_attention import (
    Factored,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    PerformerAttentionSpec,
    Sharing,
    StridedAttentionSpec,
)
from txexport.spec.shapes import Shapes, linear, under


def local_attention(spec: LocalAttentionSpec) -> Shapes:
    """As dense attention's."""
    return _projections(spec)


def strided_attention(spec: StridedAttentionSpec) -> Shapes:
    """As dense attention's."""
    return _projections(spec)


def longformer_attention(spec: LongformerAttentionSpec) -> Shapes:
    """As dense attention's, and query, key and value projections of global tokens."""
    inputs = linear(spec.hidden_size, spec.num_heads * spec.head_dim, spec.bias)
    return (
        _projections(spec) | under("q_global", inputs) | under("k_global", inputs) | under("v_global", inputs)
    )


def linformer_attention(spec: LinformerAttentionSpec) -> Shapes:
    """As dense attention's, and the projections of keys and values along the length."""
    heads = (spec.num_heads,) if spec.sharing == Sharing.NONE else ()
    along: Shapes = {"weight": (*heads, spec.projected_length, spec.max_length)}
    shapes = _projections(spec) | under("e", along)
    return shapes if spec.sharing == Sharing.KEY_VALUE else shapes | under("f", along)


def performer_attention(spec: PerformerAttentionSpec) -> Shapes:
    """As dense attention's, and the random directions that all heads share."""
    directions: Shapes = {"weight": (spec.num_features, spec.head_dim)}
    return _projections(spec) | under("features", directions)


def _projections(
    spec: LocalAttentionSpec
    | StridedAttentionSpec
    | LongformerAttentionSpec
    | LinformerAttentionSpec
    | PerformerAttentionSpec,
) -> Shapes:
    """Query, key, value and output projections."""
    inner = spec.num_heads * spec.head_dim
    inputs = linear(spec.hidden_size, inner, spec.bias)
    output = linear(inner, spec.hidden_size, spec.bias)
    return under("q", inputs) | under("k", inputs) | under("v", inputs) | under("o", output)


def low_rank_attention(spec: LowRankAttentionSpec) -> Shapes:
    """Query, key, value and output projections, each whole or in two factors."""
    inner, rank = spec.num_heads * spec.head_dim, spec.rank
    factored = {Factored.VALUE: "v", Factored.INPUTS: "qkv", Factored.ALL: "qkvo"}[spec.factored]
    shapes: Shapes = {}
    for name in "qkvo":
        ends = (inner, spec.hidden_size) if name == "o" else (spec.hidden_size, inner)
        if name in factored:
            narrow = linear(ends[0], rank, False)
            shapes |= under(name, linear(rank, ends[1], spec.bias) | under("inner", narrow))
        else:
            shapes |= under(name, linear(*ends, spec.bias))
    return shapes
