"""Spectrograms folded into squares, as grids of patches (Chen et al. 2022, 3.1)."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import BatchNormSpec, SpectrogramGridSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.batch_norm import batch_norm
from txgraphs.norm import norm

CUBIC = -0.75  # the slope of the cubic between frames
INNER, TWICE = CUBIC + 2, CUBIC + 3  # of its polynomials, for the nearer frames and the others
FOUR, FIVE, EIGHT = 4 * CUBIC, 5 * CUBIC, 8 * CUBIC


@component("x")
def spectrogram_grid_embedding(spec: SpectrogramGridSpec, g: Body, input_features: ir.Value) -> ir.Value:
    """Bands normalised, frames interpolated and folded, patches projected (Chen et al. 2022, 3.1).

    input_features (B,1,frames,bands) -> x (B,R,C,W), rows and columns of patches.
    """
    op = g.op
    spectrogram = op.Squeeze(input_features, op.Constant(value_ints=[1]))
    turned = op.Transpose(spectrogram, perm=[0, 2, 1])  # (B, bands, frames)
    bands = batch_norm(BatchNormSpec(spec.num_mel_bins, spec.eps), g / "bands", turned)
    frames = g.call(cubic(spec.max_length), bands)  # (B, bands, max_length)
    parts = op.Reshape(frames, op.Constant(value_ints=[0, 0, spec.folds, spec.side]))
    folded = op.Transpose(parts, perm=[0, 2, 1, 3])
    square = op.Reshape(folded, op.Constant(value_ints=[0, 1, spec.side, spec.side]), name="square")
    weights, strides = (g.weight("project.weight"), g.weight("project.bias")), [spec.patch_size] * 2
    grid = op.Conv(square, *weights, strides=strides, name="grid")  # (B, W, R, C)
    x = op.Transpose(grid, perm=[0, 2, 3, 1])  # (B, R, C, W)
    return x if spec.norm is None else norm(spec.norm, g / "norm", x)


@cache
def cubic(size: int) -> OnnxFunction:
    """x (B,bands,frames) -> y (B,bands,size), by cubics (Keys 1981) between the centres of outer frames.

    A frame's place n (frames - 1) / (size - 1) is split into whole and rest as integers, without rounding.
    """
    intervals = size - 1

    @script(domain, default_opset=op)
    def cubic(x):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        last = op.Squeeze(op.Shape(x, start=2, end=3)) - one
        scaled = op.Range(zero, op.Constant(value_int=size), one) * last  # (size)
        steps = op.Constant(value_int=intervals)
        before = scaled / steps
        rest = op.CastLike(op.Mod(scaled, steps), x) / op.CastLike(steps, x)
        other = 1.0 - rest
        near = rest * rest * (INNER * rest - TWICE) + 1.0
        far = other * other * (INNER * other - TWICE) + 1.0
        left, right = rest + 1.0, 2.0 - rest
        first = ((CUBIC * left - FIVE) * left + EIGHT) * left - FOUR
        final = ((CUBIC * right - FIVE) * right + EIGHT) * right - FOUR
        y = op.Gather(x, op.Clip(before - one, zero, last), axis=2) * first
        y = y + op.Gather(x, before, axis=2) * near
        y = y + op.Gather(x, op.Clip(before + one, zero, last), axis=2) * far
        y = y + op.Gather(x, op.Clip(before + one + one, zero, last), axis=2) * final
        return y

    return cubic


embedding = spectrogram_grid_embedding
