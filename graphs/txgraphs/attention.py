"""Multi-head attention: over a whole sequence, over a cache, and over an encoder's output."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import AttentionSpec, Cache
from txgraphs import domain, op
from txgraphs.linear import linear


@script(domain, default_opset=op)
def split(x, heads):
    """x (B,S,N*H), heads = [0, 0, N, -1] -> (B,N,S,H)."""
    y = op.Transpose(op.Reshape(x, heads), perm=[0, 2, 1, 3])
    return y


@script(domain, default_opset=op)
def merge(x):
    """x (B,N,S,H) -> (B,S,N*H)."""
    y = op.Reshape(op.Transpose(x, perm=[0, 2, 1, 3]), op.Constant(value_ints=[0, 0, -1]))
    return y


def _scale(spec: AttentionSpec) -> float:
    return spec.head_dim**-0.5 if spec.scale is None else spec.scale


@cache
def attention(spec: AttentionSpec) -> OnnxFunction:
    """Attention of a sequence over itself (Vaswani et al. 2017, 3.2): x (B,S,W), mask (B,1,S,S) -> y."""
    heads, kv_heads = [0, 0, spec.num_heads, -1], [0, 0, spec.num_kv_heads, -1]
    project, scale = linear(spec.bias), _scale(spec)

    @script(domain, default_opset=op)
    def attention(x, mask, q_weight, q_bias, k_weight, k_bias, v_weight, v_bias, o_weight, o_bias):
        q = split(project(x, q_weight, q_bias), op.Constant(value_ints=heads))  # (B, N, S, H)
        k = split(project(x, k_weight, k_bias), op.Constant(value_ints=kv_heads))  # (B, K, S, H)
        v = split(project(x, v_weight, v_bias), op.Constant(value_ints=kv_heads))
        mixed = merge(op.Attention(q, k, v, mask, scale=scale))  # (B, S, N*H)
        y = project(mixed, o_weight, o_bias)  # (B, S, W)
        return y

    return attention


@cache
def cached_attention(spec: AttentionSpec, cache: Cache) -> OnnxFunction:
    """Attention of new tokens over the past and themselves: x, past (B,K,P,H) -> y, k, v (B,K,T,H)."""
    heads, kv_heads = [0, 0, spec.num_heads, -1], [0, 0, spec.num_kv_heads, -1]
    project, scale, static = linear(spec.bias), _scale(spec), cache == Cache.STATIC

    @script(domain, default_opset=op)
    def cached_attention(
        x,
        mask,
        cache_lengths,
        past_k,
        past_v,
        q_weight,
        q_bias,
        k_weight,
        k_bias,
        v_weight,
        v_bias,
        o_weight,
        o_bias,
    ):
        q = split(project(x, q_weight, q_bias), op.Constant(value_ints=heads))  # (B, N, S, H)
        new_k = split(project(x, k_weight, k_bias), op.Constant(value_ints=kv_heads))  # (B, K, S, H)
        new_v = split(project(x, v_weight, v_bias), op.Constant(value_ints=kv_heads))
        if static:
            k = op.TensorScatter(past_k, new_k, cache_lengths)  # (B, K, C, H)
            v = op.TensorScatter(past_v, new_v, cache_lengths)
            filled = cache_lengths + op.Shape(x, start=1, end=2)  # (B)
            mixed = merge(op.Attention(q, k, v, None, None, None, filled, is_causal=1, scale=scale))
        else:
            k = op.Concat(past_k, new_k, axis=2)  # (B, K, T, H)
            v = op.Concat(past_v, new_v, axis=2)
            mixed = merge(op.Attention(q, k, v, mask, scale=scale))  # (B, S, N*H)
        y = project(mixed, o_weight, o_bias)  # (B, S, W)
        return y, k, v

    return cached_attention


@cache
def cross_key_value(spec: AttentionSpec) -> OnnxFunction:
    """Keys and values of an encoder's output, computed once for all steps: (B,E,W) -> k, v (B,K,E,H)."""
    kv_heads, project = [0, 0, spec.num_kv_heads, -1], linear(spec.bias)

    @script(domain, default_opset=op)
    def cross_key_value(encoded, k_weight, k_bias, v_weight, v_bias):
        k = split(project(encoded, k_weight, k_bias), op.Constant(value_ints=kv_heads))  # (B, K, E, H)
        v = split(project(encoded, v_weight, v_bias), op.Constant(value_ints=kv_heads))
        return k, v

    return cross_key_value


@cache
def cross_attention(spec: AttentionSpec) -> OnnxFunction:
    """Attention of a decoder's tokens over an encoder's keys and values: mask (B,1,S,E), k, v (B,K,E,H)."""
    heads, project, scale = [0, 0, spec.num_heads, -1], linear(spec.bias), _scale(spec)

    @script(domain, default_opset=op)
    def cross_attention(x, mask, k, v, q_weight, q_bias, o_weight, o_bias):
        q = split(project(x, q_weight, q_bias), op.Constant(value_ints=heads))  # (B, N, S, H)
        mixed = merge(op.Attention(q, k, v, mask, scale=scale))  # (B, S, N*H)
        y = project(mixed, o_weight, o_bias)  # (B, S, W)
        return y

    return cross_attention
