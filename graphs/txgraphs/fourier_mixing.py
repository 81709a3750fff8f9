"""Mixing of tokens by a Fourier transform."""

from functools import cache

import numpy as np
import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import FourierMixingSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32


@cache
def fourier_tables(spec: FourierMixingSpec, dtype: ir.DataType) -> OnnxFunction:
    """tokens (B,S) -> cosines and sines of a vector's numbers (W,F), and of tokens (S,S)."""
    width, frequencies, turn, kind = spec.hidden_size, spec.frequencies, 2 * np.pi, int(dtype)
    angles = turn / width * np.arange(width)
    cosines, sines, circle = float32(np.cos(angles)), float32(np.sin(angles)), float32(turn)

    @script(domain, default_opset=op)
    def fourier_tables(tokens):
        zero, one, column = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[1])
        size, first = op.Constant(value_int=width), op.Constant(value_int=frequencies)
        numbers = op.Unsqueeze(op.Range(zero, size, one), column)
        across = op.Mod(numbers * op.Range(zero, first, one), size)  # (W, F)
        cos_width = op.Cast(op.Gather(op.Constant(value=cosines), across), to=kind)
        sin_width = op.Cast(op.Gather(op.Constant(value=sines), across), to=kind)
        length = op.Squeeze(op.Shape(tokens, start=1, end=2))
        order = op.Range(zero, length, one)  # (S)
        along = op.Mod(op.Unsqueeze(order, column) * order, length)  # (S, S)
        beyond = op.Greater(along + along, length)
        near = op.Where(beyond, along - length, along)  # half a turn at most, for small rounding errors
        angles = op.Cast(near, to=1) * (op.Constant(value=circle) / op.Cast(length, to=1))
        cos_tokens, sin_tokens = op.Cast(op.Cos(angles), to=kind), op.Cast(op.Sin(angles), to=kind)
        return cos_width, sin_width, cos_tokens, sin_tokens

    return fourier_tables


@component("y")
def fourier_mixing(
    spec: FourierMixingSpec,
    g: Body,
    x: ir.Value,
    cos_width: ir.Value,
    sin_width: ir.Value,
    cos_tokens: ir.Value,
    sin_tokens: ir.Value,
) -> ir.Value:
    """The real part of the transform over tokens and numbers (Lee-Thorp et al. 2021, 3.2), as products.

    x (B,S,W), tables (W,F) and (S,S) -> y (B,S,W).
    """
    op = g.op
    even = op.MatMul(cos_tokens, op.MatMul(x, cos_width), name="even")  # (B, S, F)
    odd = op.MatMul(sin_tokens, op.MatMul(x, sin_width), name="odd")
    both = op.Add(even, odd, name="both")
    first = spec.hidden_size - spec.frequencies
    if not first:
        return op.Sub(even, odd)
    # Not a Slice with a negative step, which WebGPU computes wrongly (microsoft/onnxruntime, pull 25160).
    backwards = op.Gather(both, op.Constant(value_ints=[*range(first, 0, -1)]), axis=-1)
    y: ir.Value = op.Concat(op.Sub(even, odd), backwards, axis=-1)
    return y
