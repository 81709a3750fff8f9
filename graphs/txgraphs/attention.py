"""Multi-head attention: over a whole sequence, over a cache, and over an encoder's output."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import AttentionSpec, Cache
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.position import asked


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


@script(domain, default_opset=op)
def own_mix(q, k, v, mask, scale: float):
    """q (B,N,S,H), k and v (B,N,T,H), mask (B,1,S,T) -> (B,N,S,H); every head has keys of its own."""
    mixed = op.Attention(q, k, v, mask, scale=scale)
    return mixed


@script(domain, default_opset=op)
def biased_mix(q, k, v, bias, scale: float):
    """q (B,N,S,H), k and v (B,N,T,H), numbers (B,N,S,T) to add to the scores -> (B,N,S,H)."""
    mixed = op.Attention(q, k, v, bias, scale=scale)
    return mixed


@script(domain, default_opset=op)
def capped_mix(q, k, v, mask, scale: float, softcap: float):
    """As the operator does it: scores s become softcap * tanh(s / softcap) (Bello et al. 2016, 3.2)."""
    mixed = op.Attention(q, k, v, mask, scale=scale, softcap=softcap)
    return mixed


@script(domain, default_opset=op)
def filled_mix(q, k, v, filled, single, rows, scale: float):
    """q (B,N,S,H), of a cache k and v (B,K,C,H), of which each row has filled (B) -> (B,S,N*H), causal.

    Where there is a `single` new token, the queries of the heads that share keys are rows = [0, K, -1, 0] of
    one product, so that the keys are read once.
    """
    if single:
        together = op.Attention(op.Reshape(q, rows), k, v, None, None, None, filled, scale=scale)
        mixed = op.Reshape(together, op.Constant(value_ints=[0, 1, -1]))
    else:
        heads = op.Attention(q, k, v, None, None, None, filled, is_causal=1, scale=scale)
        mixed = op.Reshape(op.Transpose(heads, perm=[0, 2, 1, 3]), op.Constant(value_ints=[0, 0, -1]))
    return mixed


@script(domain, default_opset=op)
def shared_mix(q, k, v, mask, single, rows, seen, heads, scale: float):
    """q (B,N,S,H), k and v (B,K,T,H), mask (B,1,S,T) -> (B,N,S,H).

    As `filled_mix`, where a mask says what is seen, by seen = [N/K, 1] queries at once; heads = [0, N, -1, 0]
    takes the product's rows apart.
    """
    if single:
        together = op.Attention(op.Reshape(q, rows), k, v, op.Expand(mask, seen), scale=scale)
        mixed = op.Reshape(together, heads)
    else:
        mixed = op.Attention(q, k, v, mask, scale=scale)
    return mixed


@script(domain, default_opset=op)
def scores(q, k, scale: float):
    """q (B,N,S,H), k (B,K,T,H) -> products (B,N,S,T) of queries with the keys that N/K of them share.

    This and what follows is attention in operators of every opset from 17 on, for graphs that give weights:
    the operator could, but ONNX's shape inference has it give those of no key where lengths are open.
    """
    shape = op.Concat(
        op.Shape(q, end=1),
        op.Shape(k, start=1, end=2),
        op.Constant(value_ints=[-1]),
        op.Shape(q, start=2),
        axis=0,
    )
    keys = op.Transpose(op.Unsqueeze(k, op.Constant(value_ints=[2])), perm=[0, 1, 2, 4, 3])
    products = op.MatMul(op.Reshape(q * op.Constant(value_float=scale), shape), keys)  # (B, K, N/K, S, T)
    y = op.Reshape(products, op.Concat(op.Shape(q, end=3), op.Shape(k, start=2, end=3), axis=0))
    return y


@script(domain, default_opset=op)
def capped(s, softcap: float):
    """Scores s (B,N,S,T) -> softcap * tanh(s / softcap) (Bello et al. 2016, 3.2)."""
    cap = op.Constant(value_float=softcap)
    y = op.Tanh(s / cap) * cap
    return y


@script(domain, default_opset=op)
def masked_softmax(s, mask):
    """Scores s (B,N,S,T), mask (B,1,S,T) -> weights (B,N,S,T); a query that sees nothing has none."""
    bias = op.Where(mask, op.Constant(value_float=0.0), op.Constant(value_float=-3.0e38))  # (B, 1, S, T)
    keys, one = op.Constant(value_ints=[-1]), op.Constant(value_float=1.0)
    sees = op.Min(op.ReduceSum(op.CastLike(mask, s), keys), one)  # (B, 1, S, 1)
    y = op.Softmax(s + bias, axis=-1) * sees
    return y


@script(domain, default_opset=op)
def sunk_softmax(s, mask, sinks):
    """As `masked_softmax`, with one more score of each head, sinks (N), then left out (OpenAI 2025)."""
    bias = op.Where(mask, op.Constant(value_float=0.0), op.Constant(value_float=-3.0e38))  # (B, 1, S, T)
    column = op.Reshape(sinks, op.Constant(value_ints=[1, -1, 1, 1]))
    last = op.Expand(
        column, op.Concat(op.Shape(s, end=3), op.Constant(value_ints=[1]), axis=0)
    )  # (B, N, S, 1)
    every = op.Softmax(op.Concat(s + bias, last, axis=-1), axis=-1)  # (B, N, S, T + 1)
    zero, end, keys = op.Constant(value_ints=[0]), op.Constant(value_ints=[-1]), op.Constant(value_ints=[3])
    y = op.Slice(every, zero, end, keys)
    return y


@script(domain, default_opset=op)
def weighted_sum(weights, v):
    """weights (B,N,S,T), v (B,K,T,H) -> (B,N,S,H)."""
    shape = op.Concat(
        op.Shape(weights, end=1),
        op.Shape(v, start=1, end=2),
        op.Constant(value_ints=[-1]),
        op.Shape(weights, start=2),
        axis=0,
    )
    values = op.Unsqueeze(v, op.Constant(value_ints=[2]))  # (B, K, 1, T, H)
    mixed = op.MatMul(op.Reshape(weights, shape), values)  # (B, K, N/K, S, H)
    y = op.Reshape(mixed, op.Concat(op.Shape(weights, end=3), op.Shape(v, start=3), axis=0))
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
) -> tuple[ir.Value, ...]:
    """Attention of a sequence over itself (Vaswani et al. 2017, 3.2).

    x (B,S,W), mask (B,1,S,S), cos and sin (B,S,R) -> y (B,S,W), and where `weighted` weights (B,N,S,S).
    """
    q = _heads(spec, g, "q", x, cos, sin)  # (B, N, S, H)
    k, v = _heads(spec, g, "k", x, cos, sin), _values(spec, g, x)  # (B, K, S, H)
    heads, *weights = _mix(spec, weighted, g, q, k, v, mask)  # (B, N, S, H)
    mixed = g.call(merge, heads, name="mixed")  # (B, S, N*H)
    y = linear(spec.output_bias, g / "o", mixed)  # (B, S, W)
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
    **fewer: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of new tokens over the past and themselves.

    x (B,S,W), mask (B,1,S,T), cos and sin (B,S,R), past (B,K,P,H) -> y (B,S,W), k and v (B,K,T,H), and where
    `weighted` weights (B,N,S,T).
    A static cache has P = T = C and takes cache_lengths (B), the slots that each row has filled; it takes a
    mask only where `weighted`, or the spec is not `maskless_static`. Of a shared buffer, no more than `used`
    (1) slots are read, and its mask is (B,1,S,used): a runtime computes with all that it is given, seen or
    not. With logits_indices (B,L), those tokens alone ask: y is (B,L,W), and the mask, (B,1,L,T), is never
    left out. Without a mask, `filled` (B) are the slots that are filled then. Where heads share keys,
    `single` (1) may tell whether one token is new.
    """
    op = g.op
    turns = asked(g, cos, logits_indices), asked(g, sin, logits_indices)  # (B, L, R)
    q = _heads(spec, g, "q", asked(g, x, logits_indices), *turns)  # (B, N, L, H)
    new_k, new_v = _heads(spec, g, "k", x, cos, sin), _values(spec, g, x)  # (B, K, S, H)
    if cache == Cache.STATIC:
        k = op.TensorScatter(past_k, new_k, cache_lengths)  # (B, K, C, H)
        v = op.TensorScatter(past_v, new_v, cache_lengths)
    else:
        k = op.Concat(past_k, new_k, axis=2)  # (B, K, T, H)
        v = op.Concat(past_v, new_v, axis=2)
    read_k, read_v = (used_slots(g, cached, fewer.get("used")) for cached in (k, v))
    weights: list[ir.Value] = []
    if filled is not None:
        mixed = _filled_mix(spec, g, q, read_k, read_v, filled, single)  # (B, S, N*H)
    else:
        heads, *weights = _mix(spec, weighted, g, q, read_k, read_v, mask, single)  # (B, N, S, H)
        mixed = g.call(merge, heads, name="mixed")  # (B, S, N*H)
    y = linear(spec.output_bias, g / "o", mixed)  # (B, S, W)
    return y, k, v, *weights


@component("k", "v")
def cross_key_value(spec: AttentionSpec, g: Body, encoded: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Keys and values of an encoder's output, computed once for all steps (Vaswani et al. 2017, 3.2.3).

    encoded (B,E,W) -> k and v (B,K,E,H); E may be 0.
    """
    kv_heads = g.op.Constant(value_ints=[0, 0, spec.num_kv_heads, spec.head_dim])
    k = g.call(split, linear(spec.bias, g / "k", encoded), kv_heads)  # (B, K, E, H)
    v = g.call(split, linear(spec.bias, g / "v", encoded), kv_heads)
    return k, v


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
    crossed, *weights = _mix(spec, weighted, g, q, k, v, mask)  # (B, N, S, H)
    mixed = g.call(merge, crossed, name="mixed")  # (B, S, N*H)
    y = linear(spec.output_bias, g / "o", mixed)  # (B, S, W)
    return y, *weights


def _heads(
    spec: AttentionSpec, g: Body, name: str, x: ir.Value, cos: ir.Value | None, sin: ir.Value | None
) -> ir.Value:
    """x (B,S,W), cos and sin (B,S,R) -> "q", queries (B,N,S,H), or "k", keys (B,K,S,H), as they meet."""
    count = {"q": spec.num_heads, "k": spec.num_kv_heads}[name]
    y = g.call(split, _side_by_side(spec, g, name, x), g.op.Constant(value_ints=[0, 0, count, -1]))
    if spec.head_norm is not None and not spec.joint_norm and not spec.rotated_norm:
        y = norm(spec.head_norm, g / f"{name}_norm", y)
    y = _rotated(spec, g, _clipped(spec, g, y), cos, sin)
    if spec.head_norm is not None and spec.rotated_norm:
        y = norm(spec.head_norm, g / f"{name}_norm", y)
    return y


def _values(spec: AttentionSpec, g: Body, x: ir.Value) -> ir.Value:
    """x (B,S,W) -> values (B,K,S,H)."""
    heads = g.op.Constant(value_ints=[0, 0, spec.num_kv_heads, -1])
    return _clipped(spec, g, g.call(split, linear(spec.bias, g / "v", x), heads))


def _clipped(spec: AttentionSpec, g: Body, y: ir.Value) -> ir.Value:
    """y, within the spec's bounds."""
    if spec.clip is None:
        return y
    low, high = (g.op.Constant(value_float=bound) for bound in (-spec.clip, spec.clip))
    return g.op.Clip(y, low, high)


def _side_by_side(spec: AttentionSpec, g: Body, name: str, x: ir.Value) -> ir.Value:
    """x (B,S,W) -> queries (B,S,N*H) or keys (B,S,K*H), normalised where the norm is of all heads."""
    y = linear(spec.bias, g / name, x)
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


def _mix(
    spec: AttentionSpec,
    weighted: bool,
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None,
    single: ir.Value | None = None,
) -> tuple[ir.Value, ...]:
    """q (B,N,S,H), k and v (B,K,T,H), mask (B,1,S,T) -> (B,N,S,H), and where `weighted` weights (B,N,S,T).

    A query that sees nothing gets 0. `single` (1) may tell whether S is 1.
    """
    scale = _scale(spec)
    if weighted or spec.sinks:
        weights = _weights(spec, g, g.call(scores, q, k, scale=scale), mask)
        mixed = g.call(weighted_sum, weights, v)
        return (mixed, weights) if weighted else (mixed,)
    if spec.has_position_bias:
        return (g.call(biased_mix, q, k, v, mask, scale=scale),)
    if spec.softcap is not None:
        return (g.call(capped_mix, q, k, v, mask, scale=scale, softcap=spec.softcap),)
    if spec.unmasked:
        return (g.op.Attention(q, k, v, scale=scale),)
    if not spec.shares_keys:
        return (g.call(own_mix, q, k, v, mask, scale=scale),)
    if single is None:
        return (g.op.Attention(q, k, v, mask, scale=scale),)
    rows, heads = (g.op.Constant(value_ints=[0, n, -1, 0]) for n in (spec.num_kv_heads, spec.num_heads))
    seen = g.op.Constant(value_ints=[spec.num_heads // spec.num_kv_heads, 1])
    return (g.call(shared_mix, q, k, v, mask, single, rows, seen, heads, scale=scale),)


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
        heads = g.op.Attention(q, k, v, None, None, None, filled, is_causal=1, scale=_scale(spec))
        return g.call(merge, heads, name="mixed")
    rows = g.op.Constant(value_ints=[0, spec.num_kv_heads, -1, 0])
    return g.call(filled_mix, q, k, v, filled, single, rows, scale=_scale(spec), name="mixed")


def _weights(spec: AttentionSpec, g: Body, s: ir.Value, mask: ir.Value | None) -> ir.Value:
    """Scores s (B,N,S,T), mask (B,1,S,T) -> weights (B,N,S,T)."""
    if spec.has_position_bias:
        return g.op.Softmax(g.op.Add(s, mask), axis=-1, name="weights")
    if spec.softcap is not None:
        s = g.call(capped, s, softcap=spec.softcap)
    if spec.unmasked:
        return g.op.Softmax(s, axis=-1, name="weights")
    if spec.sinks:
        return g.call(sunk_softmax, s, mask, g.weight("sinks"), name="weights")
    return g.call(masked_softmax, s, mask, name="weights")


def _scale(spec: AttentionSpec) -> float:
    return spec.head_dim**-0.5 if spec.scale is None else spec.scale
