"""Spectrograms through gated convolutions over time."""

import onnx_ir as ir

from txexport.spec import GatedFramesSpec
from txgraphs._component import Body, component
from txgraphs.gated_convolution import gated_convolution
from txgraphs.source_mask import source_mask


@component("x", "mask")
def gated_frames_embedding(
    spec: GatedFramesSpec, g: Body, input_features: ir.Value, attention_mask: ir.Value
) -> tuple[ir.Value, ...]:
    """Gated convolutions over the frames of a spectrogram, plus positions (Synnaeve et al. 2019, 2.1).

    input_features (B,frames,bands), attention_mask (B,frames) -> x (B,S,W), mask (B,S).
    """
    op, x = g.op, input_features
    for number, (sizes, kernel) in enumerate(zip(spec.sizes, spec.kernels, strict=True)):
        place = g / f"convolutions.{number}"
        x = gated_convolution(sizes[1] // 2, kernel, spec.stride, kernel // 2, place, x)  # (B, S, W)
    if spec.scale != 1:
        x = op.Mul(x, op.CastLike(op.Constant(value_float=spec.scale), x), name="scaled")
    first, rows = op.Constant(value_ints=[spec.offset]), op.Constant(value_ints=[0])
    end = op.Add(op.Shape(x, start=1, end=2), first)
    x = op.Add(x, op.Slice(g.weight("position.weight"), first, end, rows))
    return x, source_mask(spec.counted, 1, g, attention_mask, x)


embedding = gated_frames_embedding
