"""Multi-head attention within blocks of a sequence and their neighbours."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import LocalAttentionSpec
from txgraphs import domain, op
from txgraphs.attention import merge, split
from txgraphs.blocks import blocks, distances, joined, preceded, rows, surrounded
from txgraphs.linear import linear


@cache
def local_attention(spec: LocalAttentionSpec) -> OnnxFunction:
    """Attention over blocks: causal (Parmar et al. 2018, 3.3), or both ways (Zaheer et al. 2020, D).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W); T is 2C or 3C, the keys of a block.
    """
    heads, block, scale = [0, 0, spec.num_heads, -1], spec.block_size, spec.head_dim**-0.5
    around = preceded if spec.causal else surrounded
    start, end = -spec.block_size, spec.block_size if spec.causal else 2 * spec.block_size
    ahead = 0 if spec.causal else 2 * spec.block_size
    project = linear(spec.bias)

    @script(domain, default_opset=op)
    def local_attention(
        x, attention_mask, q_weight, q_bias, k_weight, k_bias, v_weight, v_bias, o_weight, o_bias
    ):
        size, shape = op.Constant(value_ints=[block]), op.Constant(value_ints=heads)
        q = split(rows(blocks(project(x, q_weight, q_bias), size)), shape)  # (B*M, N, C, H)
        k = split(around(blocks(project(x, k_weight, k_bias), size)), shape)  # (B*M, N, T, H)
        v = split(around(blocks(project(x, v_weight, v_bias), size)), shape)
        real = around(blocks(op.Unsqueeze(attention_mask, op.Constant(value_ints=[2])), size))  # (B*M, T, 1)
        apart = distances(q, op.Constant(value_int=start), op.Constant(value_int=end))
        seen = op.LessOrEqual(apart, op.Constant(value_int=ahead))  # (C, T)
        keys = op.Transpose(op.Cast(real, to=9), perm=[0, 2, 1])  # (B*M, 1, T)
        mask = op.And(op.Unsqueeze(keys, op.Constant(value_ints=[1])), seen)  # (B*M, 1, C, T)
        mixed = merge(op.Attention(q, k, v, mask, scale=scale))  # (B*M, C, N*H)
        y = project(joined(mixed, x), o_weight, o_bias)  # (B, S, W)
        return y

    return local_attention
