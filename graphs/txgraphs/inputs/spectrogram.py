"""Spectrograms in overlapping square patches (Gong et al. 2021, 2.1)."""

import onnx_ir as ir

from txexport.spec import SpectrogramSpec
from txgraphs._component import Body, component


@component("x")
def spectrogram_embedding(spec: SpectrogramSpec, g: Body, input_values: ir.Value) -> ir.Value:
    """Patches of spectrograms, projected, after two tokens, plus positions (Gong et al. 2021, 2.1).

    input_values (B,frames,bands) -> x (B,S,W).
    """
    op = g.op
    image = op.Unsqueeze(
        op.Transpose(input_values, perm=[0, 2, 1]), op.Constant(value_ints=[1]), name="image"
    )
    strides = [spec.frequency_stride, spec.time_stride]
    grid = op.Conv(image, g.weight("project.weight"), g.weight("project.bias"), strides=strides, name="grid")
    flat = op.Reshape(grid, op.Constant(value_ints=[0, 0, -1]), name="flat")  # (B, W, S - 2)
    patches = op.Transpose(flat, perm=[0, 2, 1], name="patches")
    shape = op.Concat(op.Shape(grid, end=1), op.Constant(value_ints=[1, 1]), axis=0, name="shape")
    tokens = [op.Expand(g.weight(f"tokens.{token}.weight"), shape) for token in range(2)]  # (B, 1, W) each
    words = op.Concat(*tokens, patches, axis=1, name="words")
    x = op.Add(words, g.weight("position.weight"))  # (B, S, W)
    return x


embedding = spectrogram_embedding
