"""Phrases of a text, which do not see one another (Liu et al. 2023, 3.4)."""

import math
from functools import cache

from onnxscript import OnnxFunction, script

from txgraphs import domain, op

TEMPERATURE = 10000  # of sines


@cache
def phrases(separators: tuple[int, ...]) -> OnnxFunction:
    """input_ids (B,S) -> mask (B,1,S,S), true within a phrase, and positions (B,S) within phrases.

    A phrase ends with one of `separators`. Tokens of one that ends with the first or the last token, or
    does not end, see themselves alone.
    """
    every = list(separators)

    @script(domain, default_opset=op)
    def phrases(input_ids):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        first, second, last = (
            op.Constant(value_ints=[0]),
            op.Constant(value_ints=[1]),
            op.Constant(value_ints=[2]),
        )
        length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
        order = op.Range(zero, length, one)  # (S)
        column = op.Unsqueeze(order, second)  # (S, 1)
        equal = op.Equal(op.Unsqueeze(input_ids, last), op.Constant(value_ints=every))  # (B, S, separators)
        count = op.ReduceSum(op.Cast(equal, to=7), last, keepdims=0)
        ends = op.Unsqueeze(count > zero, second)  # (B, 1, S)
        behind = op.GreaterOrEqual(order, column)  # (S, S)
        next_ends, _ = op.TopK(op.Where(op.And(ends, behind), order, length), second, largest=0)
        last_ends, _ = op.TopK(op.Where(op.And(ends, op.Not(behind)), order, op.Neg(one)), second)
        following = op.Squeeze(next_ends, last)  # (B, S)
        before = op.Squeeze(last_ends, last)  # (B, S)
        closed = op.And(following > zero, following < length - one)
        same = op.Equal(op.Unsqueeze(following, last), op.Unsqueeze(following, second))
        seen = op.And(same, op.Unsqueeze(closed, second))  # (B, S, S)
        itself = op.Unsqueeze(op.Equal(order, column), first)  # (1, S, S)
        mask = op.Unsqueeze(op.Or(seen, itself), second)  # (B, 1, S, S)
        positions = op.Where(closed, order - before - one, zero)
        return mask, positions

    return phrases


@cache
def number_sines(size: int) -> OnnxFunction:
    """x (B,S,n) -> sines and cosines (B,S,n * size) of each number by turns, in turns of 2 pi."""
    periods = [TEMPERATURE ** (step / size) for step in range(0, size, 2)]

    @script(domain, default_opset=op)
    def number_sines(x):
        last = op.Constant(value_ints=[-1])
        turn = op.CastLike(op.Constant(value_float=2 * math.pi), x)
        every = op.CastLike(op.Constant(value_floats=periods), x)
        turns = op.Unsqueeze(x, last) * turn / every  # (B, S, n, size / 2)
        both = op.Concat(op.Unsqueeze(op.Sin(turns), last), op.Unsqueeze(op.Cos(turns), last), axis=-1)
        sines = op.Reshape(both, op.Constant(value_ints=[0, 0, -1]))
        return sines

    return number_sines
