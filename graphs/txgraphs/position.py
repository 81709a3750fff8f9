"""Positions of tokens, RoPE and position biases."""

import math
from functools import cache
from typing import TypeVar

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import (
    AlibiSpec,
    PatchSpec,
    QueryGrowthSpec,
    RelativeSpec,
    RotarySpec,
    RoundedAlibiSpec,
)
from txgraphs import domain, op
from txgraphs._component import Body
from txgraphs._constants import float32
from txgraphs._nodes import Nodes

Present = TypeVar("Present", ir.Value, ir.Value | None)


@script(domain, default_opset=op)
def positions(input_ids, start):
    """input_ids (B,S), start (B) or (1): tokens that come before -> positions (B,S) or (1,S)."""
    length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
    steps = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
    places = op.Unsqueeze(start, op.Constant(value_ints=[1])) + steps  # (B, S)
    return places


@script(domain, default_opset=op)
def asked_positions(logits_indices, cache_lengths):
    """logits_indices (B,L) among new tokens, cache_lengths (B) that come before -> positions (B,L)."""
    places = op.Unsqueeze(cache_lengths, op.Constant(value_ints=[1])) + logits_indices
    return places


@script(domain, default_opset=op)
def picked(x, logits_indices):
    """x (B,S,W) of new tokens, logits_indices (B,L) among them -> x of those alone (B,L,W)."""
    picks = op.Unsqueeze(logits_indices, op.Constant(value_ints=[2]))  # (B, L, 1)
    y = op.GatherND(x, picks, batch_dims=1)
    return y


def asked(g: Body, x: Present, logits_indices: ir.Value | None) -> Present:
    """As `picked`; without indices all of x (B,S,W), and None for None."""
    return x if x is None or logits_indices is None else g.call(picked, x, logits_indices)


@cache
def token_positions(padding: int) -> OnnxFunction:
    """input_ids (B,S) -> positions (B,S) that count from 1 and skip the id `padding`, which gets 0."""

    @script(domain, default_opset=op)
    def token_positions(input_ids):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        real = op.Where(op.Equal(input_ids, op.Constant(value_int=padding)), zero, one)  # (B, S)
        places = op.CumSum(real, one) * real  # (B, S)
        return places

    return token_positions


@cache
def rotation(spec: RotarySpec, dtype: ir.DataType) -> OnnxFunction:
    """positions (B,S) -> cosines and sines (B,S,R), R = len(spec.frequencies) (Su et al. 2021, 3.4.2).

    With axes, positions (A,B,S) (Wang et al. 2024, 2.1).
    Angles need float32 whatever the graph computes with: float16 has no odd positions beyond 2,048.
    """
    numbers, scale, scaled = float32(spec.frequencies), float32(spec.scale), spec.scale != 1
    kind, narrow = int(dtype), dtype != ir.DataType.FLOAT
    switched, last = bool(spec.long_frequencies), spec.short_length - 1
    stretched, axes, several = float32(spec.long_frequencies), spec.axes, bool(spec.axes)

    @script(domain, default_opset=op)
    def rotation(positions):
        frequencies = op.Constant(value=numbers)  # (R)
        if switched:
            beyond = op.Greater(op.ReduceMax(positions, keepdims=0), op.Constant(value_int=last))
            frequencies = op.Where(beyond, op.Constant(value=stretched), frequencies)
        if several:
            each = op.Gather(positions, op.Constant(value_ints=axes), axis=0)  # (R, B, S)
            turns = op.Cast(op.Transpose(each, perm=[1, 2, 0]), to=1)  # (B, S, R)
        else:
            turns = op.Cast(op.Unsqueeze(positions, op.Constant(value_ints=[2])), to=1)  # (B, S, 1)
        angles = turns * frequencies  # (B, S, R)
        cos = op.Cos(angles)
        sin = op.Sin(angles)
        if scaled:
            cos = cos * op.Constant(value=scale)
            sin = sin * op.Constant(value=scale)
        if narrow:
            cos = op.Cast(cos, to=kind)
            sin = op.Cast(sin, to=kind)
        return cos, sin

    return rotation


@cache
def query_growth(spec: QueryGrowthSpec, dtype: ir.DataType) -> OnnxFunction:
    """positions (B,S) -> the factors of queries (B,S,1), 1 at the first positions, less than spec.length."""
    rate, one, length = float32(spec.rate), float32(1.0), spec.length
    early, ahead = spec.ahead > 0, spec.ahead
    kind, narrow = int(dtype), dtype != ir.DataType.FLOAT

    @script(domain, default_opset=op)
    def query_growth(positions):
        if early:
            positions = positions + op.Constant(value_int=ahead)
        quotients = positions / op.Constant(value_int=length)  # (B, S)
        intervals = op.Cast(op.Unsqueeze(quotients, op.Constant(value_ints=[2])), to=1)  # (B, S, 1)
        grown = op.Log(intervals + op.Constant(value=one)) * op.Constant(value=rate)
        growth = grown + op.Constant(value=one)  # (B, S, 1)
        if narrow:
            growth = op.Cast(growth, to=kind)
        return growth

    return query_growth


@cache
def patch_rotation(patches: PatchSpec, spec: RotarySpec, dtype: ir.DataType) -> OnnxFunction:
    """pixel_values (B,channels,height,width) -> cosines and sines (B,S,R) (Siméoni et al. 2025, 3.2).

    Half of the R frequencies turn by a patch's row, half by its column, from -2 pi to 2 pi over an image of
    any size; prefix tokens before the patches are not rotated. As angles of tokens, these need float32.
    """
    numbers, side, before = float32(spec.frequencies), patches.patch_size, patches.tokens + patches.registers
    around, kind, narrow = float32(2 * math.pi), int(dtype), dtype != ir.DataType.FLOAT

    @script(domain, default_opset=op)
    def patch_rotation(pixel_values):
        zero, one, half = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value=float32(0.5))
        sides = op.Shape(pixel_values, start=2) / op.Constant(value_ints=[side])  # (2)
        rows, columns = op.Gather(sides, zero), op.Gather(sides, one)
        down = (op.Cast(op.Range(zero, rows, one), to=1) + half) / op.Cast(rows, to=1) * 2.0 - 1.0
        across = (op.Cast(op.Range(zero, columns, one), to=1) + half) / op.Cast(columns, to=1) * 2.0 - 1.0
        column = op.Constant(value_ints=[-1, 1])
        y = op.Reshape(op.Expand(op.Unsqueeze(down, op.Constant(value_ints=[1])), sides), column)
        x = op.Reshape(op.Expand(across, sides), column)
        places = op.Concat(y, x, axis=1) * op.Constant(value=around)  # (rows * columns, 2)
        frequencies = op.Reshape(op.Constant(value=numbers), op.Constant(value_ints=[2, -1]))
        turned = op.Unsqueeze(places, op.Constant(value_ints=[2])) * frequencies  # (rows * columns, 2, R / 2)
        flat = op.Flatten(turned)  # (rows * columns, R)
        angles = op.Pad(flat, op.Constant(value_ints=[before, 0, 0, 0]))  # (S, R)
        whole = op.Concat(op.Shape(pixel_values, end=1), op.Shape(angles), axis=0)
        cos = op.Expand(op.Cos(angles), whole)  # (B, S, R)
        sin = op.Expand(op.Sin(angles), whole)
        if narrow:
            cos = op.Cast(cos, to=kind)
            sin = op.Cast(sin, to=kind)
        return cos, sin

    return patch_rotation


@cache
def patch_coordinates(patch_size: int) -> OnnxFunction:
    """pixel_values (B,channels,height,width) -> the row and the column (2,B,S) of each patch."""

    @script(domain, default_opset=op)
    def patch_coordinates(pixel_values):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        sides = op.Shape(pixel_values, start=2) / op.Constant(value_ints=[patch_size])  # (2)
        rows, columns = op.Gather(sides, zero), op.Gather(sides, one)
        down, across = op.Range(zero, rows, one), op.Range(zero, columns, one)
        line = op.Constant(value_ints=[1, 1, -1])
        y = op.Reshape(op.Expand(op.Unsqueeze(down, op.Constant(value_ints=[1])), sides), line)
        x = op.Reshape(op.Expand(across, sides), line)
        both = op.Concat(y, x, axis=0)  # (2, 1, S)
        two, batch = op.Constant(value_ints=[2]), op.Shape(pixel_values, end=1)
        coordinates = op.Expand(both, op.Concat(two, batch, op.Shape(both, start=2), axis=0))  # (2, B, S)
        return coordinates

    return patch_coordinates


@cache
def alibi(spec: AlibiSpec, dtype: ir.DataType) -> OnnxFunction:
    """ALiBi: a penalty of a head's scores in proportion to distance (Press et al. 2022, 3).

    Positions of queries (B,S) and keys (B,T) or (1,T) -> bias (B,N,S,T). As angles, distances need float32.
    """
    numbers = float32([-slope for slope in spec.slopes])
    kind, narrow = int(dtype), dtype != ir.DataType.FLOAT

    @script(domain, default_opset=op)
    def alibi(queries, keys):
        slopes = op.Unsqueeze(op.Constant(value=numbers), op.Constant(value_ints=[1, 2]))  # (N, 1, 1)
        one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
        distance = op.Cast(op.Abs(op.Unsqueeze(queries, two) - op.Unsqueeze(keys, one)), to=1)  # (B, S, T)
        bias = op.Unsqueeze(distance, one) * slopes  # (B, N, S, T)
        if narrow:
            bias = op.Cast(bias, to=kind)
        return bias

    return alibi


@cache
def rounded_alibi(spec: RoundedAlibiSpec, dtype: ir.DataType) -> OnnxFunction:
    """ALiBi as a bonus for a key's position, rounded to as few bits as in the original model.

    Positions of queries (B,S) and keys (B,T) or (1,T) -> bias (B,N,S,T).
    """
    numbers, last = float32(spec.bias_of_position()), spec.length - 1
    kind, narrow = int(dtype), dtype != ir.DataType.FLOAT

    @script(domain, default_opset=op)
    def rounded_alibi(queries, keys):
        table = op.Constant(value=numbers)  # (N, length)
        places = op.Min(op.Max(keys, op.Constant(value_int=0)), op.Constant(value_int=last))
        gained = op.Transpose(op.Gather(table, places, axis=1), perm=[1, 0, 2])  # (B, N, T)
        one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
        batch, length = op.Shape(queries, start=0, end=1), op.Shape(queries, start=1, end=2)
        shape = op.Concat(batch, one, length, one, axis=0)
        bias = op.Expand(op.Unsqueeze(gained, two), shape)  # (B, N, S, T)
        if narrow:
            bias = op.Cast(bias, to=kind)
        return bias

    return rounded_alibi


def relative_bias(spec: RelativeSpec, g: Nodes, queries: ir.Value, keys: ir.Value) -> ir.Value:
    """Learned bias of a head's scores for the distance of key and query (Raffel et al. 2020, 2.1).

    Positions of queries (B,S) and keys (B,T) or (1,T) -> bias (B,N,S,T).
    """
    return g.call(_relative_bias(spec), queries, keys, g.weight("weight"))


@cache
def _relative_bias(spec: RelativeSpec) -> OnnxFunction:
    numbers, last, directed = spec.bucket_of_distance(), spec.max_distance, spec.directed
    bidirectional = spec.bidirectional

    @script(domain, default_opset=op)
    def relative_bias(queries, keys, weight):
        table = op.Constant(value_ints=numbers)  # (max_distance + 1)
        one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
        ahead = op.Unsqueeze(keys, one) - op.Unsqueeze(queries, two)  # (B, S, T)
        zero = op.Constant(value_int=0)
        if bidirectional:
            distance = op.Abs(ahead)
        else:
            distance = op.Max(op.Neg(ahead), zero)
        buckets = op.Gather(table, op.Min(distance, op.Constant(value_int=last)))  # (B, S, T)
        if bidirectional:
            buckets = buckets + op.Cast(op.Greater(ahead, zero), to=7) * op.Constant(value_int=directed)
        bias = op.Transpose(op.Gather(weight, buckets), perm=[0, 3, 1, 2])  # (B, N, S, T)
        return bias

    return relative_bias
