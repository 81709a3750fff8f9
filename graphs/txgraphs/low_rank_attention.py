"""Multi-head attention whose projections are products of two narrow matrices."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import Factored, LowRankAttentionSpec
from txgraphs import domain, op
from txgraphs.attention import merge, split
from txgraphs.linear import linear, linear_plain
from txgraphs.mask import causal_mask, padding_mask


@cache
def low_rank_linear(bias: bool) -> OnnxFunction:
    """Projection through R numbers: x (..., in) -> y (..., out) (Winata et al. 2020, 2).

    Its dense matrix (out,in) is weight (out,R) times inner_weight (R,in).
    """
    project = linear(bias)

    @script(domain, default_opset=op)
    def low_rank_linear(x, weight, bias, inner_weight):
        y = project(linear_plain(x, inner_weight, None), weight, bias)
        return y

    return low_rank_linear


@cache
def low_rank_attention(spec: LowRankAttentionSpec) -> OnnxFunction:
    """Attention of a sequence over itself, some projections of low rank (Winata et al. 2020, 2).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W).
    """
    heads, scale = [0, 0, spec.num_heads, -1], spec.head_dim**-0.5
    inputs, output = spec.factored != Factored.VALUE, spec.factored == Factored.ALL
    project, narrow = linear(spec.bias), low_rank_linear(spec.bias)
    causal, past_mask = spec.causal, causal_mask(None)

    @script(domain, default_opset=op)
    def low_rank_attention(
        x,
        attention_mask,
        q_weight,
        q_bias,
        q_inner_weight,
        k_weight,
        k_bias,
        k_inner_weight,
        v_weight,
        v_bias,
        v_inner_weight,
        o_weight,
        o_bias,
        o_inner_weight,
    ):
        shape = op.Constant(value_ints=heads)
        if inputs:
            q = split(narrow(x, q_weight, q_bias, q_inner_weight), shape)  # (B, N, S, H)
            k = split(narrow(x, k_weight, k_bias, k_inner_weight), shape)
        else:
            q = split(project(x, q_weight, q_bias), shape)  # (B, N, S, H)
            k = split(project(x, k_weight, k_bias), shape)
        v = split(narrow(x, v_weight, v_bias, v_inner_weight), shape)
        if causal:
            mask = past_mask(attention_mask, attention_mask, attention_mask)  # (B, 1, S, S)
        else:
            mask = padding_mask(attention_mask, attention_mask)  # (B, 1, S, S)
        mixed = merge(op.Attention(q, k, v, mask, scale=scale))  # (B, S, N*H)
        if output:
            y = narrow(mixed, o_weight, o_bias, o_inner_weight)  # (B, S, W)
        else:
            y = project(mixed, o_weight, o_bias)  # (B, S, W)
        return y

    return low_rank_attention
