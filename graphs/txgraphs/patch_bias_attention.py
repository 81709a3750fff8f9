"""Multi-head attention of an image's patches with biases of distances."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import PatchBiasAttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.linear import linear
from txgraphs.scaled_dot_product_attention import biased_mix


@component("y")
def patch_bias_attention(spec: PatchBiasAttentionSpec, g: Body, x: ir.Value) -> ir.Value:
    """Attention over a vector of the image and its patches (Bao et al. 2022, 2.4).

    x (B,S,W) -> y (B,S,W); the first of S vectors is the image's.
    """
    heads = g.op.Constant(value_ints=[0, 0, spec.num_heads, spec.head_dim])
    q, k, v = (g.call(split, linear(name != "k", g / name, x), heads) for name in ("q", "k", "v"))
    bias = g.call(patch_bias((spec.rows, spec.columns)), g.weight("relative.weight"))  # (1, N, S, S)
    mixed = g.call(merge, g.call(biased_mix, q, k, v, bias, scale=spec.head_dim**-0.5), name="mixed")
    y = linear(True, g / "o", mixed)
    return y


@cache
def patch_bias(grid: tuple[int, int]) -> OnnxFunction:
    """biases (P,N) of P distances -> bias (1,N,S,S) of each pair of vectors, the image's first."""
    rows, columns = grid
    size, high, wide, step = rows * columns, rows - 1, columns - 1, 2 * columns - 1
    # Biases of the image's vector: for a patch, a patch's for it, and for itself.
    to_patch = (2 * rows - 1) * step
    to_image, to_itself = to_patch + 1, to_patch + 2
    first, below = [1, size], [size, 1]

    @script(domain, default_opset=op)
    def patch_bias(biases):
        zero, one, column = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[1])
        order = op.Range(zero, op.Constant(value_int=size), one)  # (S - 1)
        side = op.Constant(value_int=columns)
        row, beside = order / side, op.Mod(order, side)
        down = op.Unsqueeze(row, column) - row + op.Constant(value_int=high)
        across = op.Unsqueeze(beside, column) - beside + op.Constant(value_int=wide)
        between = down * op.Constant(value_int=step) + across
        for_patches = op.Expand(op.Constant(value_int=to_patch), op.Constant(value_ints=first))
        of_patches = op.Expand(op.Constant(value_int=to_image), op.Constant(value_ints=below))
        itself = op.Reshape(op.Constant(value_int=to_itself), op.Constant(value_ints=[1, 1]))
        upper = op.Concat(itself, for_patches, axis=1)
        every = op.Concat(upper, op.Concat(of_patches, between, axis=1), axis=0)  # (S, S)
        picked = op.Transpose(op.Gather(biases, every), perm=[2, 0, 1])  # (N, S, S)
        bias = op.Unsqueeze(picked, op.Constant(value_ints=[0]))
        return bias

    return patch_bias
