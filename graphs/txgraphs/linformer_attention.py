"""Multi-head attention over a fixed number of sums of the keys and values."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import LinformerAttentionSpec, Sharing
from txgraphs import domain, op
from txgraphs.attention import merge, split
from txgraphs.linear import linear


@script(domain, default_opset=op)
def length_projection(x, weight):
    """K sums of a sequence's tokens, the same in all heads or each head's own (Wang et al. 2020, 4).

    x (B,N,S,H) -> y (B,N,K,H); S is at most the spec's max_length.
    """
    first, length = op.Constant(value_ints=[0]), op.Shape(x, start=2, end=3)
    y = op.MatMul(op.Slice(weight, first, length, op.Constant(value_ints=[-1])), x)
    return y


@cache
def linformer_attention(spec: LinformerAttentionSpec) -> OnnxFunction:
    """Attention in which every query sees K sums of the real tokens (Wang et al. 2020, 4).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W); S is at most the spec's max_length.
    """
    heads, scale = [0, 0, spec.num_heads, -1], spec.head_dim**-0.5
    project, shared = linear(spec.bias), spec.sharing == Sharing.KEY_VALUE

    @script(domain, default_opset=op)
    def linformer_attention(
        x,
        attention_mask,
        q_weight,
        q_bias,
        k_weight,
        k_bias,
        v_weight,
        v_bias,
        o_weight,
        o_bias,
        e_weight,
        f_weight,
    ):
        shape = op.Constant(value_ints=heads)
        real = op.CastLike(op.Unsqueeze(attention_mask, op.Constant(value_ints=[2])), x)  # (B, S, 1)
        q = split(project(x, q_weight, q_bias), shape)  # (B, N, S, H)
        k = length_projection(split(project(x, k_weight, k_bias) * real, shape), e_weight)  # (B, N, K, H)
        v = split(project(x, v_weight, v_bias) * real, shape)  # (B, N, S, H)
        if shared:
            v = length_projection(v, e_weight)  # (B, N, K, H)
        else:
            v = length_projection(v, f_weight)
        keys = op.Transpose(k * op.Constant(value_float=scale), perm=[0, 1, 3, 2])  # (B, N, H, K)
        mixed = merge(op.MatMul(op.Softmax(op.MatMul(q, keys), axis=-1), v))  # (B, S, N*H)
        y = project(mixed, o_weight, o_bias)  # (B, S, W)
        return y

    return linformer_attention
