"""Attention masks: boolean, true if a query attends to a key."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec.attention import Reach
from txgraphs import domain, op


@script(domain, default_opset=op)
def padding_mask(attention_mask, input_ids):
    """attention_mask (B,T) of 0 and 1, input_ids (B,S) -> mask (B,1,S,T): every query sees every real key."""
    keys = op.Unsqueeze(op.Cast(attention_mask, to=9), op.Constant(value_ints=[1, 2]))  # (B, 1, 1, T)
    length = op.Shape(input_ids, start=1, end=2)
    ones = op.Constant(value_ints=[1])
    mask = op.Expand(keys, op.Concat(ones, ones, length, ones, axis=0))  # (B, 1, S, T)
    return mask


@script(domain, default_opset=op)
def mutual_mask(attention_mask):
    """attention_mask (B,S) of 0 and 1 -> mask (B,1,S,S): every real query sees every real key."""
    real = op.Cast(attention_mask, to=9)  # (B, S)
    queries = op.Unsqueeze(real, op.Constant(value_ints=[1, 3]))  # (B, 1, S, 1)
    mask = op.And(queries, op.Unsqueeze(real, op.Constant(value_ints=[1, 2])))  # (B, 1, S, S)
    return mask


@script(domain, default_opset=op)
def from_first_token(attention_mask, order):
    """attention_mask and order (B,S) -> order (B,S) counted from each row's first real token."""
    column = op.Constant(value_ints=[1])
    empty = op.Equal(op.CumSum(attention_mask, op.Constant(value_int=1)), op.Constant(value_int=0))
    begun = order - op.ReduceSum(op.Cast(empty, to=7), column)  # (B, S) - (B, 1)
    return begun


@cache
def near_mask(window: int) -> OnnxFunction:
    """As `padding_mask`, for queries whose `order` (B,S) is less than `window` from the key's, either way."""

    @script(domain, default_opset=op)
    def near_mask(attention_mask, input_ids, order):
        mask = padding_mask(attention_mask, input_ids)  # (B, 1, S, S)
        own, other = op.Constant(value_ints=[2]), op.Constant(value_ints=[1])
        distance = op.Abs(op.Unsqueeze(order, own) - op.Unsqueeze(order, other))  # (B, S, S)
        near = op.Less(distance, op.Constant(value_int=window))
        mask = op.And(mask, op.Unsqueeze(near, op.Constant(value_ints=[1])))
        return mask

    return near_mask


@cache
def causal_mask(reach: Reach) -> OnnxFunction:
    """As `padding_mask`, and no query sees a key after itself; the S queries are the last of the T keys.

    With a window, it sees only keys whose `order` (B,T) is less than that below its own (Beltagy et al.
    2020, 3.1), or if windows are chunks, only keys of its own.
    """
    chunked, size = reach.chunked, reach.window or 0
    windowed = reach.window is not None and not chunked

    @script(domain, default_opset=op)
    def causal_mask(attention_mask, input_ids, order):
        keys = op.Unsqueeze(op.Cast(attention_mask, to=9), op.Constant(value_ints=[1, 2]))  # (B, 1, 1, T)
        zero, step = op.Constant(value_int=0), op.Constant(value_int=1)
        width, length = op.Shape(attention_mask, start=1, end=2), op.Shape(input_ids, start=1, end=2)
        first = width - length
        places = op.Range(zero, op.Squeeze(width), step)  # (T)
        own = op.Range(zero, op.Squeeze(length), step) + first  # (S)
        past = op.LessOrEqual(places, op.Unsqueeze(own, op.Constant(value_ints=[1])))  # (S, T)
        mask = op.And(keys, past)  # (B, 1, S, T)
        if windowed:
            one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
            late = op.Unsqueeze(op.Slice(order, first, width, one), two)  # (B, S, 1)
            distance = late - op.Unsqueeze(order, one)  # (B, S, T)
            near = op.Less(distance, op.Constant(value_int=size))
            mask = op.And(mask, op.Unsqueeze(near, op.Constant(value_ints=[1])))
        if chunked:
            one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
            chunks = order / op.Constant(value_int=size)  # (B, T)
            late = op.Unsqueeze(op.Slice(chunks, first, width, one), two)  # (B, S, 1)
            near = op.Equal(late, op.Unsqueeze(chunks, one))  # (B, S, T)
            mask = op.And(mask, op.Unsqueeze(near, op.Constant(value_ints=[1])))
        return mask

    return causal_mask


@cache
def cache_mask(reach: Reach) -> OnnxFunction:
    """Of queries at `places` (B,S), past_k (B,K,C,H) -> mask (B,1,S,C) over a static cache.

    A query sees itself and the slots before it, or only window - 1 of them, or those of its chunk.
    """
    chunked, size = reach.chunked, reach.window or 0
    windowed = reach.window is not None and not chunked

    @script(domain, default_opset=op)
    def cache_mask(places, past_k):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        slots = op.Range(zero, op.Squeeze(op.Shape(past_k, start=2, end=3)), one)  # (C)
        own = op.Unsqueeze(places, op.Constant(value_ints=[2]))  # (B, S, 1)
        seen = op.LessOrEqual(slots, own)  # (B, S, C)
        if windowed:
            seen = op.And(seen, op.Less(own - slots, op.Constant(value_int=size)))
        if chunked:
            chunk = op.Constant(value_int=size)
            seen = op.And(seen, op.Equal(own / chunk, slots / chunk))
        mask = op.Unsqueeze(seen, op.Constant(value_ints=[1]))  # (B, 1, S, C)
        return mask

    return cache_mask


@cache
def near_slots(window: int) -> OnnxFunction:
    """Of new tokens in `slots` (B,S) of past_k (B,K,C,H) -> first (1), end (1), few (1).

    No query sees a slot before the `first` one, or from `end` on; `few` tells whether half of the slots or
    more are not seen.
    """
    reach = window - 1

    @script(domain, default_opset=op)
    def near_slots(slots, past_k):
        flat, zero = op.Constant(value_ints=[-1]), op.Constant(value_ints=[0])
        least, most = op.Reshape(op.ReduceMin(slots), flat), op.Reshape(op.ReduceMax(slots), flat)
        first = op.Max(least - op.Constant(value_ints=[reach]), zero)
        end = most + op.Constant(value_ints=[1])
        few = op.LessOrEqual((end - first) * op.Constant(value_ints=[2]), op.Shape(past_k, start=2, end=3))
        return first, end, few

    return near_slots


@script(domain, default_opset=op)
def filled_slots(attention_mask, input_ids):
    """attention_mask (B,T) of 0 and 1, input_ids (B,S) -> cache_lengths (B): its ones before the S last."""
    zero, one = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
    past = op.Shape(attention_mask, start=1, end=2) - op.Shape(input_ids, start=1, end=2)  # (1)
    cache_lengths = op.ReduceSum(op.Slice(attention_mask, zero, past, one), one, keepdims=0)  # (B)
    return cache_lengths


@script(domain, default_opset=op)
def filled_then(input_ids, cache_lengths):
    """input_ids (B,S), cache_lengths (B) -> the slots (B) that each row has filled when they are read."""
    filled = op.Add(cache_lengths, op.Shape(input_ids, start=1, end=2))
    return filled


@script(domain, default_opset=op)
def filled_behind(slots):
    """As `filled_then`, of the slots (B,S) of the new tokens, without a shape, which the processor has."""
    last = op.Gather(slots, op.Constant(value_int=-1), axis=1)  # (B)
    filled = last + op.Constant(value_int=1)
    return filled


@script(domain, default_opset=op)
def counted_tokens(input_ids, new_lengths):
    """input_ids (B,S), new_lengths (B) -> whether a token is one of its row's first new_lengths (B,S,1)."""
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    steps = op.Range(zero, op.Squeeze(op.Shape(input_ids, start=1, end=2)), one)  # (S)
    real = op.Less(steps, op.Unsqueeze(new_lengths, op.Constant(value_ints=[1])))  # (B, S)
    real = op.Unsqueeze(real, op.Constant(value_ints=[2]))  # (B, S, 1)
    return real


@script(domain, default_opset=op)
def masked_tokens(attention_mask, input_ids):
    """attention_mask (B,T) of 0 and 1, input_ids (B,S) its last -> real (B,S,1), ends (B).

    `ends` are the tokens of a row up to its last real one; 0 where there is none.
    """
    axis = op.Constant(value_ints=[1])
    width, length = op.Shape(attention_mask, start=1, end=2), op.Shape(input_ids, start=1, end=2)
    mask = op.Slice(attention_mask, width - length, width, axis)  # (B, S)
    last = op.ArgMax(mask, axis=1, keepdims=0, select_last_index=1)  # (B)
    filled = op.Greater(op.ReduceSum(mask, axis, keepdims=0), op.Constant(value_int=0))
    ends = op.Where(filled, last + op.Constant(value_int=1), op.Constant(value_int=0))  # (B)
    real = op.Unsqueeze(op.Cast(mask, to=9), op.Constant(value_ints=[2]))  # (B, S, 1)
    return real, ends


@script(domain, default_opset=op)
def first_tokens(attention_mask, input_ids):
    """attention_mask (B,T) of 0 and 1, input_ids (B,S) its last -> true for the first of a row (B,S,1)."""
    axis = op.Constant(value_ints=[1])
    width, length = op.Shape(attention_mask, start=1, end=2), op.Shape(input_ids, start=1, end=2)
    counts = op.CumSum(attention_mask, op.Constant(value_int=1))  # (B, T)
    new = op.Slice(counts, width - length, width, axis)  # (B, S)
    first = op.Unsqueeze(op.Equal(new, op.Constant(value_int=1)), op.Constant(value_ints=[2]))  # (B, S, 1)
    return first


@script(domain, default_opset=op)
def first_slots(slots):
    """slots (B,S) of tokens -> true for the first of a row (B,S,1)."""
    first = op.Unsqueeze(op.Equal(slots, op.Constant(value_int=0)), op.Constant(value_ints=[2]))  # (B, S, 1)
    return first


@script(domain, default_opset=op)
def single_token(input_ids):
    """input_ids (B,S) -> whether S is 1 (1)."""
    single = op.Equal(op.Shape(input_ids, start=1, end=2), op.Constant(value_ints=[1]))
    return single


@script(domain, default_opset=op)
def biased_mask(bias, mask):
    """bias (B,N,S,T), mask (B,1,S,T) -> what to add to the scores (B,N,S,T), where hidden keys vanish."""
    both = op.Where(mask, bias, op.Constant(value_float=-3.0e38))  # (B, N, S, T)
    return both
