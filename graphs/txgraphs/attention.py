"""Multi-head attention: over a whole sequence, over a cache, and over an encoder's output."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import AttentionSpec, Cache, NormSpec
from txgraphs import domain, op
from txgraphs.linear import linear
from txgraphs.norm import norm


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


def _scale(spec: AttentionSpec) -> float:
    return spec.head_dim**-0.5 if spec.scale is None else spec.scale


def _rotation(spec: AttentionSpec) -> tuple[bool, int, int]:
    """Whether heads are rotated, and the operator's attributes: interleaved, how many numbers (0 for all)."""
    if spec.rotary is None:
        return False, 0, 0
    size = 2 * len(spec.rotary.frequencies)
    return True, int(spec.rotary.interleaved), 0 if size == spec.head_dim else size


@cache
def attention(spec: AttentionSpec) -> OnnxFunction:
    """Attention of a sequence over itself (Vaswani et al. 2017, 3.2): x (B,S,W), mask (B,1,S,S) -> y."""
    heads, kv_heads = [0, 0, spec.num_heads, -1], [0, 0, spec.num_kv_heads, -1]
    project, output, scale = linear(spec.bias), linear(spec.output_bias), _scale(spec)
    normed, normalise = spec.head_norm is not None, norm(spec.head_norm or NormSpec(1, 1.0))
    rotary, interleaved, rotated = _rotation(spec)
    biased, capped, softcap = spec.has_position_bias, spec.softcap is not None, spec.softcap or 0.0
    whole = spec.unmasked

    @script(domain, default_opset=op)
    def attention(
        x,
        mask,
        cos,
        sin,
        q_weight,
        q_bias,
        k_weight,
        k_bias,
        v_weight,
        v_bias,
        o_weight,
        o_bias,
        q_norm_weight,
        q_norm_bias,
        k_norm_weight,
        k_norm_bias,
    ):
        q = split(project(x, q_weight, q_bias), op.Constant(value_ints=heads))  # (B, N, S, H)
        k = split(project(x, k_weight, k_bias), op.Constant(value_ints=kv_heads))  # (B, K, S, H)
        v = split(project(x, v_weight, v_bias), op.Constant(value_ints=kv_heads))
        if normed:
            q, k = normalise(q, q_norm_weight, q_norm_bias), normalise(k, k_norm_weight, k_norm_bias)
        if rotary:
            q = op.RotaryEmbedding(q, cos, sin, interleaved=interleaved, rotary_embedding_dim=rotated)
            k = op.RotaryEmbedding(k, cos, sin, interleaved=interleaved, rotary_embedding_dim=rotated)
        if biased:
            mixed = merge(biased_mix(q, k, v, mask, scale=scale))  # (B, S, N*H)
        elif capped:
            mixed = merge(capped_mix(q, k, v, mask, scale=scale, softcap=softcap))
        elif whole:
            mixed = merge(op.Attention(q, k, v, scale=scale))
        else:
            mixed = merge(op.Attention(q, k, v, mask, scale=scale))
        y = output(mixed, o_weight, o_bias)  # (B, S, W)
        return y

    return attention


@cache
def cached_attention(spec: AttentionSpec, cache: Cache) -> OnnxFunction:
    """Attention of new tokens over the past and themselves: x, past (B,K,P,H) -> y, k, v (B,K,T,H)."""
    heads, kv_heads = [0, 0, spec.num_heads, -1], [0, 0, spec.num_kv_heads, -1]
    project, output, scale = linear(spec.bias), linear(spec.output_bias), _scale(spec)
    normed, normalise = spec.head_norm is not None, norm(spec.head_norm or NormSpec(1, 1.0))
    rotary, interleaved, rotated = _rotation(spec)
    biased, capped, softcap = spec.has_position_bias, spec.softcap is not None, spec.softcap or 0.0
    static = cache == Cache.STATIC
    maskless = static and spec.maskless_static

    @script(domain, default_opset=op)
    def cached_attention(
        x,
        mask,
        cos,
        sin,
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
        q_norm_weight,
        q_norm_bias,
        k_norm_weight,
        k_norm_bias,
    ):
        q = split(project(x, q_weight, q_bias), op.Constant(value_ints=heads))  # (B, N, S, H)
        new_k = split(project(x, k_weight, k_bias), op.Constant(value_ints=kv_heads))  # (B, K, S, H)
        new_v = split(project(x, v_weight, v_bias), op.Constant(value_ints=kv_heads))
        if normed:
            q = normalise(q, q_norm_weight, q_norm_bias)
            new_k = normalise(new_k, k_norm_weight, k_norm_bias)
        if rotary:
            q = op.RotaryEmbedding(q, cos, sin, interleaved=interleaved, rotary_embedding_dim=rotated)
            new_k = op.RotaryEmbedding(new_k, cos, sin, interleaved=interleaved, rotary_embedding_dim=rotated)
        if static:
            k = op.TensorScatter(past_k, new_k, cache_lengths)  # (B, K, C, H)
            v = op.TensorScatter(past_v, new_v, cache_lengths)
        else:
            k = op.Concat(past_k, new_k, axis=2)  # (B, K, T, H)
            v = op.Concat(past_v, new_v, axis=2)
        if maskless:
            filled = cache_lengths + op.Shape(x, start=1, end=2)  # (B)
            mixed = merge(op.Attention(q, k, v, None, None, None, filled, is_causal=1, scale=scale))
        elif biased:
            mixed = merge(biased_mix(q, k, v, mask, scale=scale))
        elif capped:
            mixed = merge(capped_mix(q, k, v, mask, scale=scale, softcap=softcap))
        else:
            mixed = merge(op.Attention(q, k, v, mask, scale=scale))  # (B, S, N*H)
        y = output(mixed, o_weight, o_bias)  # (B, S, W)
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
    heads, scale = [0, 0, spec.num_heads, -1], _scale(spec)
    project, output, whole = linear(spec.bias), linear(spec.output_bias), spec.unmasked

    @script(domain, default_opset=op)
    def cross_attention(x, mask, k, v, q_weight, q_bias, o_weight, o_bias):
        q = split(project(x, q_weight, q_bias), op.Constant(value_ints=heads))  # (B, N, S, H)
        if whole:
            mixed = merge(op.Attention(q, k, v, scale=scale))  # (B, S, N*H)
        else:
            mixed = merge(op.Attention(q, k, v, mask, scale=scale))
        y = output(mixed, o_weight, o_bias)  # (B, S, W)
        return y

    return cross_attention
