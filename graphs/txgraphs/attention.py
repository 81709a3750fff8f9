"""Multi-head attention: over a whole sequence, over a cache, and over an encoder's output."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import AttentionSpec, Cache
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._near_slots import few_or_all
from txgraphs.adapted_linear import adapted_linear
from txgraphs.grouped_linear import grouped_linear
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.position import asked
from txgraphs.relative_gate import relative_gate
from txgraphs.scaled_dot_product_attention import filled_mix, scale_of, scaled_dot_product_attention


@script(domain, default_opset=op)
def split(x, heads):
    """x (B,S,N*H), heads = [0, 0, N, -1] or [0, 0, N, H] -> (B,N,S,H)."""
    y = op.Transpose(op.Reshape(x, heads), perm=[0, 2, 1, 3])
    return y


@script(domain, default_opset=op)
def merge(x):
    """x (B,N,S,H) -> (B,S,N*H)."""
    y = op.Reshape(op.Transpose(x, perm=[0, 2, 1, 3]), op.Constant(value_ints=[0, 0, -1]))
    return y


@component("y", "weights")
def attention(
    spec: AttentionSpec,
    weighted: bool,
    g: Body,
    x: ir.Value,
    mask: ir.Value | None,
    cos: ir.Value | None,
    sin: ir.Value | None,
    **more: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of a sequence over itself (Vaswani et al. 2017, 3.2).

    x (B,S,W), mask (B,1,S,S), cos and sin (B,S,R) -> y (B,S,W), and where `weighted` weights (B,N,S,S).
    A gated attention reads a bias, `relative` (1,N,S,S). Queries are multiplied by `growth` (B,S,1).
    """
    if spec.gated:
        mask = relative_gate(spec, g / "gate", x, more["relative"], mask)  # (B, N, S, S)
    q = grown(g, heads_of(spec, g, "q", x, cos, sin), more.get("growth"))  # (B, N, S, H)
    k, v = _keys_and_values(spec, g, x, cos, sin)  # (B, K, S, H)
    heads, *weights = scaled_dot_product_attention(spec, weighted, g, q, k, v, mask)  # (B, N, S, H)
    mixed = _gated_output(spec, g, x, g.call(merge, heads, name="mixed"))  # (B, S, N*H)
    y = grouped_linear(spec.num_heads * spec.head_dim, spec.output_bias, spec.o_groups, g / "o", mixed)
    return y, *weights


@component("y", "k", "v", "weights")
def cached_attention(
    spec: AttentionSpec,
    weighted: bool,
    cache: Cache,
    g: Body,
    x: ir.Value,
    mask: ir.Value | None,
    cos: ir.Value | None,
    sin: ir.Value | None,
    cache_lengths: ir.Value | None,
    past_k: ir.Value,
    past_v: ir.Value,
    logits_indices: ir.Value | None = None,
    filled: ir.Value | None = None,
    single: ir.Value | None = None,
    **more: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of new tokens over the past and themselves.

    x (B,S,W), mask (B,1,S,T), cos and sin (B,S,R), past (B,K,P,H) -> y (B,S,W), k and v (B,K,T,H), and where
    `weighted` weights (B,N,S,T).
    A static cache has P = T = C and takes cache_lengths (B), the slots that each row has filled; it takes a
    mask only where `weighted`, or the spec is not `maskless_static`. Of a shared buffer, no more than `used`
    (1) slots are read, and its mask is (B,1,S,used): a runtime computes with all that it is given, seen or
    not. With logits_indices (B,L), y is (B,L,W), and the mask (B,1,L,T): those tokens alone ask. Without a
    mask, all do, and `filled` (B) are the slots that are filled then. Where heads share keys,
    `single` (1) may tell whether one token is new. Queries are multiplied by `growth` (B,S,1).
    """
    op = g.op
    first, last = (logits_indices, None) if filled is None else (None, logits_indices)
    turns = asked(g, cos, first), asked(g, sin, first)  # (B, L, R)
    q = heads_of(spec, g, "q", asked(g, x, first), *turns)  # (B, N, L, H)
    q = grown(g, q, asked(g, more.get("growth"), first))
    new_k, new_v = _keys_and_values(spec, g, x, cos, sin)  # (B, K, S, H)
    if cache == Cache.STATIC:
        k = op.TensorScatter(past_k, new_k, cache_lengths)  # (B, K, C, H)
        v = op.TensorScatter(past_v, new_v, cache_lengths)
    else:
        k = op.Concat(past_k, new_k, axis=2)  # (B, K, T, H)
        v = op.Concat(past_v, new_v, axis=2)
    mixed, *weights = mixed_heads(spec, weighted, g, q, k, v, mask, filled, single, more)
    mixed = asked(g, _gated_output(spec, g, asked(g, x, first), mixed), last)  # (B, L, N*H)
    y = linear(spec.output_bias, g / "o", mixed)  # (B, L, W)
    return y, k, v, *weights


def grown(g: Body, q: ir.Value, growth: ir.Value | None) -> ir.Value:
    """q (B,N,S,H) times growth (B,S,1), if there is any."""
    if growth is None:
        return q
    return g.op.Mul(q, g.op.Unsqueeze(growth, g.op.Constant(value_ints=[1])), name="grown")


def mixed_heads(
    spec: AttentionSpec,
    weighted: bool,
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None,
    filled: ir.Value | None,
    single: ir.Value | None,
    slots: dict[str, ir.Value],
) -> tuple[ir.Value, ...]:
    """q (B,N,S,H) over a cache k, v (B,K,T,H) -> (B,S,N*H), and where `weighted` weights (B,N,S,T).

    `slots` may have the number of slots `used`, or the `first` slot that a query sees, the `end` of those,
    and whether they are `few`.
    """
    if "few" in slots:
        bounds = {name: slots[name] for name in ("first", "end", "few")}
        heads = few_or_all(spec, g, **bounds, q=q, k=k, v=v, mask=mask, single=single)
        return (g.call(merge, heads, name="mixed"),)  # (B, S, N*H)
    used = slots.get("used")
    read_k, read_v = (used_slots(g, cached, used) for cached in (k, v))
    if filled is not None:
        return (_filled_mix(spec, g, q, read_k, read_v, filled, single),)  # (B, S, N*H)
    read = q, read_k, read_v, mask, single
    heads, *weights = scaled_dot_product_attention(spec, weighted, g, *read)  # (B, N, S, H)
    mixed = g.call(merge, heads, name="mixed")  # (B, S, N*H)
    return mixed, *weights


@component("k", "v")
def cross_key_value(spec: AttentionSpec, g: Body, encoded: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Keys and values of an encoder's output, computed once for all steps (Vaswani et al. 2017, 3.2.3).

    encoded (B,E,W) -> k, normalised if the spec has a norm of heads, and v (B,K,E,H); E may be 0.
    """
    kv_heads = g.op.Constant(value_ints=[0, 0, spec.num_kv_heads, spec.head_dim])
    k = g.call(split, linear(spec.bias, g / "k", encoded), kv_heads)  # (B, K, E, H)
    v = g.call(split, linear(spec.bias, g / "v", encoded), kv_heads)
    return k if spec.k_norm is None else norm(spec.k_norm, g / "k_norm", k), v


@component("y", "weights")
def cross_attention(
    spec: AttentionSpec,
    weighted: bool,
    g: Body,
    x: ir.Value,
    mask: ir.Value | None,
    k: ir.Value,
    v: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of a decoder's tokens over an encoder's keys and values (Vaswani et al. 2017, 3.2.3).

    x (B,S,W), mask (B,1,S,E), k and v (B,K,E,H) -> y (B,S,W), and where `weighted` weights (B,N,S,E).
    """
    heads = g.op.Constant(value_ints=[0, 0, spec.num_heads, -1])
    q = g.call(split, linear(spec.bias, g / "q", x), heads)  # (B, N, S, H)
    q = q if spec.q_norm is None else norm(spec.q_norm, g / "q_norm", q)
    crossed, *weights = scaled_dot_product_attention(spec, weighted, g, q, k, v, mask)  # (B, N, S, H)
    mixed = g.call(merge, crossed, name="mixed")  # (B, S, N*H)
    y = linear(spec.output_bias, g / "o", mixed)  # (B, S, W)
    return y, *weights


@component("y")
def shared_cross_attention(
    spec: AttentionSpec, g: Body, x: ir.Value, mask: None, k: ir.Value, v: ir.Value
) -> ir.Value:
    """As `cross_attention`, over keys and values that R/B adjacent rows share, such as the beams of a source.

    x (R,S,W), k and v (B,K,E,H), R a multiple of B -> y (R,S,W). The queries of the rows that share keys are
    those of one product, so that the keys are read once. Every token sees all of its source.
    """
    op = g.op
    queries = linear(spec.bias, g / "q", x)  # (R, S, N*H)
    heads = op.Concat(
        op.Shape(k, end=1), op.Constant(value_ints=[-1, spec.num_heads, spec.head_dim]), axis=0, name="heads"
    )
    q = g.call(split, queries, heads)  # (B, N, R/B*S, H)
    (crossed,) = scaled_dot_product_attention(spec, False, g, q, k, v, None)
    mixed = op.Reshape(g.call(merge, crossed), op.Shape(queries), name="mixed")  # (R, S, N*H)
    y = linear(spec.output_bias, g / "o", mixed)  # (R, S, W)
    return y


def _gated_output(spec: AttentionSpec, g: Body, x: ir.Value, mixed: ir.Value) -> ir.Value:
    """x (B,S,W) and what its heads give (B,S,N*H) -> that times the gate, if there is one."""
    if not spec.gated_output:
        return mixed
    op, gates = g.op, g.op.Sigmoid(linear(spec.bias, g / "output_gate", x))
    if not spec.head_gates:
        return op.Mul(mixed, gates)
    heads = op.Reshape(mixed, op.Constant(value_ints=[0, 0, spec.num_heads, -1]))  # (B, S, N, H)
    gated = op.Mul(heads, op.Unsqueeze(gates, op.Constant(value_ints=[-1])))
    return op.Reshape(gated, op.Constant(value_ints=[0, 0, -1]))


def heads_of(
    spec: AttentionSpec, g: Body, name: str, x: ir.Value, cos: ir.Value | None, sin: ir.Value | None
) -> ir.Value:
    """x (B,S,W), cos and sin (B,S,R) -> "q", queries (B,N,S,H), or "k", keys (B,K,S,H), as they meet."""
    return _normed_and_rotated(spec, g, name, _projected(spec, g, name, x), cos, sin)


def _keys_and_values(
    spec: AttentionSpec, g: Body, x: ir.Value, cos: ir.Value | None, sin: ir.Value | None
) -> tuple[ir.Value, ir.Value]:
    """x (B,S,W), cos and sin (B,S,R) -> keys, as they meet queries, and values, both (B,K,S,H)."""
    projected = _projected(spec, g, "k", x)  # (B, K, S, H)
    k = _normed_and_rotated(spec, g, "k", projected, cos, sin)
    return k, _values(spec, g, x, projected)


def _projected(spec: AttentionSpec, g: Body, name: str, x: ir.Value) -> ir.Value:
    """x (B,S,W) -> queries (B,N,S,H) or keys (B,K,S,H) as projected."""
    count = {"q": spec.num_heads, "k": spec.num_kv_heads}[name]
    return g.call(split, _side_by_side(spec, g, name, x), g.op.Constant(value_ints=[0, 0, count, -1]))


def _normed_and_rotated(
    spec: AttentionSpec, g: Body, name: str, y: ir.Value, cos: ir.Value | None, sin: ir.Value | None
) -> ir.Value:
    """Projected queries (B,N,S,H) or keys (B,K,S,H), cos and sin (B,S,R) -> the same as they meet."""
    if spec.head_norm is not None and not spec.joint_norm and not spec.rotated_norm:
        y = norm(spec.head_norm, g / f"{name}_norm", y)
    y = _rotated(spec, g, _clipped(spec, g, y), cos, sin)
    if spec.head_norm is not None and spec.rotated_norm:
        y = norm(spec.head_norm, g / f"{name}_norm", y)
    return y


def _values(spec: AttentionSpec, g: Body, x: ir.Value, keys: ir.Value) -> ir.Value:
    """x (B,S,W), and keys as projected (B,K,S,H) -> values (B,K,S,H)."""
    if not spec.keys_as_values:
        heads = g.op.Constant(value_ints=[0, 0, spec.num_kv_heads, -1])
        projection = spec.bias, spec.v_groups, spec.adapter_rank
        keys = g.call(split, adapted_linear(spec.hidden_size, *projection, g / "v", x), heads)
    y = _clipped(spec, g, keys)
    return norm(spec.head_norm, g / "v_norm", y) if spec.value_norm and spec.head_norm is not None else y


def _clipped(spec: AttentionSpec, g: Body, y: ir.Value) -> ir.Value:
    """y, within the spec's bounds."""
    if spec.clip is None:
        return y
    low, high = (g.op.Constant(value_float=bound) for bound in (-spec.clip, spec.clip))
    return g.op.Min(g.op.Max(y, low), high)  # Clip has no bfloat16 on CUDA


def _side_by_side(spec: AttentionSpec, g: Body, name: str, x: ir.Value) -> ir.Value:
    """x (B,S,W) -> queries (B,S,N*H) or keys (B,S,K*H), normalised where the norm is of all heads."""
    groups = {"q": spec.q_groups, "k": spec.k_groups}[name]
    y = adapted_linear(spec.hidden_size, spec.bias, groups, spec.adapter_rank, g / name, x)
    kind = {"q": spec.q_norm, "k": spec.k_norm}[name]
    return y if kind is None or not spec.joint_norm else norm(kind, g / f"{name}_norm", y)


def _rotated(
    spec: AttentionSpec, g: Body, x: ir.Value, cos: ir.Value | None, sin: ir.Value | None
) -> ir.Value:
    """x (B,N,S,H), cos and sin (B,S,R) -> x with its first 2R numbers turned pair by pair."""
    if spec.rotary is None:
        return x
    size, interleaved = 2 * len(spec.rotary.frequencies), int(spec.rotary.interleaved)
    part = 0 if size == spec.head_dim else size  # 0 is the whole head
    return g.op.RotaryEmbedding(x, cos, sin, interleaved=interleaved, rotary_embedding_dim=part)


def used_slots(g: Body, cached: ir.Value, used: ir.Value | None) -> ir.Value:
    """Keys or values (B,K,C,H) -> (B,K,used,H), all of them unless told."""
    if used is None:
        return cached
    zero, slots = g.op.Constant(value_ints=[0]), g.op.Constant(value_ints=[2])
    return g.op.Slice(cached, zero, used, slots)


def _filled_mix(
    spec: AttentionSpec,
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    filled: ir.Value,
    single: ir.Value | None,
) -> ir.Value:
    """As `filled_mix`; without a branch where nobody tells of `single`."""
    if single is None:
        heads = g.op.Attention(q, k, v, None, None, None, filled, is_causal=1, scale=scale_of(spec))
        return g.call(merge, heads, name="mixed")
    rows = g.op.Constant(value_ints=[0, spec.num_kv_heads, -1, 0])
    return g.call(filled_mix, q, k, v, filled, single, rows, scale=scale_of(spec), name="mixed")
