"""Multi-head latent attention: one cached vector a token, from which every head derives keys and values.

Keys and values are not materialised: the key projection is multiplied with the queries instead, and the value
projection with the weighted sum of vectors (DeepSeek-AI 2024, 2.1.2 and appendix C). So a cache has R + D
numbers a token, R = kv_lora_rank and D = qk_rope_head_dim, and a step reads no more. Attention is written in
basic operators, for opset 24 too: ONNX Runtime's Attention multiplies keys that all heads share head by head,
so that a step over 2,048 tokens takes four times as long as with one product for all heads' queries.
"""

import onnx_ir as ir
from onnxscript import script

from txexport.contracts import names
from txexport.spec import Cache, LatentAttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.attention import grown, merge, split, used_slots
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.position import asked
from txgraphs.scaled_dot_product_attention import masked_softmax


@script(domain, default_opset=op)
def shared_scores(q, k, scale: float):
    """q (B,N,S,H), k (B,1,T,H) -> products (B,N,S,T) of all heads' queries with the same keys."""
    shape = op.Concat(op.Shape(q, end=1), op.Constant(value_ints=[1, -1]), op.Shape(q, start=3), axis=0)
    rows = op.Reshape(q * op.Constant(value_float=scale), shape)  # (B, 1, N*S, H)
    products = op.MatMul(rows, op.Transpose(k, perm=[0, 1, 3, 2]))  # (B, 1, N*S, T)
    y = op.Reshape(products, op.Concat(op.Shape(q, end=3), op.Shape(k, start=2, end=3), axis=0))
    return y


@script(domain, default_opset=op)
def shared_sum(weights, v):
    """weights (B,N,S,T), v (B,1,T,H) -> (B,N,S,H)."""
    batch, length = op.Shape(weights, end=1), op.Shape(weights, start=3)
    shape = op.Concat(batch, op.Constant(value_ints=[1, -1]), length, axis=0)
    mixed = op.MatMul(op.Reshape(weights, shape), v)  # (B, 1, N*S, H)
    y = op.Reshape(mixed, op.Concat(op.Shape(weights, end=3), op.Shape(v, start=3), axis=0))
    return y


@script(domain, default_opset=op)
def apart(x):
    """x (B,N,S,D) -> (B,N,S,D): the first ones of its pairs of neighbours, then the second ones."""
    pairs = op.Reshape(x, op.Constant(value_ints=[0, 0, 0, -1, 2]))  # (B, N, S, D/2, 2)
    y = op.Reshape(op.Transpose(pairs, perm=[0, 1, 2, 4, 3]), op.Constant(value_ints=[0, 0, 0, -1]))
    return y


@component("y", "weights")
def latent_attention(
    spec: LatentAttentionSpec,
    weighted: bool,
    g: Body,
    x: ir.Value,
    mask: ir.Value,
    cos: ir.Value | None,
    sin: ir.Value | None,
    **more: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of a sequence over itself.

    x (B,S,W), mask (B,1,S,S), cos and sin (B,S,D/2) -> y (B,S,W), and where `weighted` weights (B,N,S,S).
    Queries are multiplied by `growth` (B,S,1). Without RoPE, cos and sin are None.
    """
    latents, turned = _compressed(spec, g, x, cos, sin)  # (B, 1, S, R), (B, 1, S, D)
    queries = _queries(spec, g, x, cos, sin, more.get("growth"))
    y, weights = _mixed(spec, g, *queries, latents, turned, mask)  # (B, S, W)
    return (y, weights) if weighted else (y,)


@component("y", "k", "v", "weights")
def cached_latent_attention(
    spec: LatentAttentionSpec,
    weighted: bool,
    cache: Cache,
    g: Body,
    x: ir.Value,
    mask: ir.Value,
    cos: ir.Value | None,
    sin: ir.Value | None,
    cache_lengths: ir.Value | None,
    past_k: ir.Value,
    past_v: ir.Value,
    **more: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of new tokens over the past and themselves.

    x (B,S,W), mask (B,1,S,T), cos and sin (B,S,D/2), past_k (B,1,P,R), past_v (B,1,P,D) -> y (B,S,W), k
    (B,1,T,R), v (B,1,T,D), and if `weighted` weights (B,N,S,T). A static cache has P = T = C and takes
    cache_lengths (B), the filled slots of each row; of a shared buffer, at most `used` (1) slots are read,
    and its mask is (B,1,S,used). With logits_indices (B,L), only these tokens are queries: y is (B,L,W), the
    mask (B,1,L,T). Queries are multiplied by `growth` (B,S,1).
    """
    op, logits_indices = g.op, more.get(names.LOGITS_INDICES)
    new_k, new_v = _compressed(spec, g, x, cos, sin)  # (B, 1, S, R), (B, 1, S, D)
    if cache == Cache.STATIC:
        k = op.TensorScatter(past_k, new_k, cache_lengths)  # (B, 1, C, R)
        v = op.TensorScatter(past_v, new_v, cache_lengths)
    else:
        k = op.Concat(past_k, new_k, axis=2)  # (B, 1, T, R)
        v = op.Concat(past_v, new_v, axis=2)
    read_k, read_v = (used_slots(g, cached, more.get("used")) for cached in (k, v))
    turns = asked(g, cos, logits_indices), asked(g, sin, logits_indices)  # (B, L, D/2)
    growth = asked(g, more.get("growth"), logits_indices)  # (B, L, 1)
    queries = _queries(spec, g, asked(g, x, logits_indices), *turns, growth)
    y, weights = _mixed(spec, g, *queries, read_k, read_v, mask)  # (B, S, W)
    return (y, k, v, weights) if weighted else (y, k, v)


def _queries(
    spec: LatentAttentionSpec,
    g: Body,
    x: ir.Value,
    cos: ir.Value | None,
    sin: ir.Value | None,
    growth: ir.Value | None,
) -> tuple[ir.Value, ir.Value]:
    """x (B,S,W), cos and sin (B,S,D/2) -> queries of latents (B,N,S,R), and of rotated keys (B,N,S,D)."""
    op = g.op
    if spec.q_lora_rank is not None:
        x = norm(spec.q_norm, g / "q_norm", linear(spec.bias, g / "q_down", x))  # (B, S, q_lora_rank)
    q = g.call(split, linear(False, g / "q", x), op.Constant(value_ints=[0, 0, spec.num_heads, -1]))
    q = grown(g, q, growth)  # (B, N, S, H)
    sizes = op.Constant(value_ints=[spec.qk_nope_head_dim, spec.qk_rope_head_dim])
    content, turning = op.Split(q, sizes, axis=3, name=["content", "turning"])
    shape = op.Constant(value_ints=[spec.num_heads, spec.qk_nope_head_dim, spec.kv_lora_rank])
    keys = op.Reshape(g.weight("k_up.weight"), shape, name="keys")  # (N, qk_nope_head_dim, R)
    return op.MatMul(content, keys, name="q"), _rotated(spec, g, turning, cos, sin)


def _compressed(
    spec: LatentAttentionSpec, g: Body, x: ir.Value, cos: ir.Value | None, sin: ir.Value | None
) -> tuple[ir.Value, ir.Value]:
    """x (B,S,W), cos and sin (B,S,D/2) -> the cached numbers: latents (B,1,S,R), rotated (B,1,S,D)."""
    op = g.op
    sizes, head = op.Constant(value_ints=[spec.kv_lora_rank, spec.qk_rope_head_dim]), [1]
    down = linear(spec.bias, g / "kv_down", x)  # (B, S, R+D)
    latents, turning = op.Split(down, sizes, axis=2, name=["latents", "turning"])
    normed = op.Unsqueeze(norm(spec.norm, g / "kv_norm", latents), op.Constant(value_ints=head))
    return normed, _rotated(spec, g, op.Unsqueeze(turning, op.Constant(value_ints=head)), cos, sin)


def _rotated(
    spec: LatentAttentionSpec, g: Body, x: ir.Value, cos: ir.Value | None, sin: ir.Value | None
) -> ir.Value:
    """x (B,N,S,D), cos and sin (B,S,D/2) -> x rotated pair by pair, or as it is without RoPE."""
    if spec.rotary is None:
        return x
    pairs = g.call(apart, x) if spec.apart else x
    return g.op.RotaryEmbedding(pairs, cos, sin, interleaved=int(spec.rotary.interleaved))


def _mixed(
    spec: LatentAttentionSpec,
    g: Body,
    q: ir.Value,
    q_turned: ir.Value,
    latents: ir.Value,
    turned: ir.Value,
    mask: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """q (B,N,S,R) and q_turned (B,N,S,D), latents (B,1,T,R) and turned (B,1,T,D), mask (B,1,S,T).

    Returns y (B,S,W) and weights (B,N,S,T).
    """
    op, scale = g.op, spec.scale
    contents = g.call(shared_scores, q, latents, scale=scale)  # (B, N, S, T)
    s = op.Add(contents, g.call(shared_scores, q_turned, turned, scale=scale), name="scores")
    weights = g.call(masked_softmax, s, mask, name="weights")
    shape = op.Constant(value_ints=[spec.num_heads, spec.v_head_dim, spec.kv_lora_rank])
    values = op.Transpose(op.Reshape(g.weight("v_up.weight"), shape), perm=[0, 2, 1], name="values")
    heads = op.MatMul(g.call(shared_sum, weights, latents), values)  # (B, N, S, v_head_dim)
    y = linear(spec.bias, g / "o", g.call(merge, heads, name="mixed"))  # (B, S, W)
    return y, weights
