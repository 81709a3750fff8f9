"""Attention masks of a decoder whose tokens of one group attend to each other: true where one does.

A group is an image, or the prefix of a row.
"""

from functools import cache

from onnxscript import OnnxFunction, script

from txgraphs import domain, op
from txgraphs.mask import filled_slots


@cache
def image_groups(image_token_id: int) -> OnnxFunction:
    """input_ids (B,S) -> a number for each image of a row (B,S), -1 for other tokens.

    Adjacent tokens of images are one image: it has the number of other tokens before it.
    """

    @script(domain, default_opset=op)
    def image_groups(input_ids):
        token = op.CastLike(op.Constant(value_int=image_token_id), input_ids)
        image = op.Equal(input_ids, token)  # (B, S)
        others = op.CumSum(op.Cast(op.Not(image), to=7), op.Constant(value_int=1))
        groups = op.Where(image, others, op.Constant(value_int=-1))
        return groups

    return image_groups


@script(domain, default_opset=op)
def prefix_groups(positions, prefix_lengths):
    """Positions of tokens (B,S), prefix_lengths (B) -> 0 for a token of the prefix (B,S), -1 for others."""
    inside = op.Less(positions, op.Unsqueeze(prefix_lengths, op.Constant(value_ints=[1])))  # (B, S)
    groups = op.Where(inside, op.Constant(value_int=0), op.Constant(value_int=-1))
    return groups


@script(domain, default_opset=op)
def first_step(attention_mask, tokens):
    """attention_mask (B,T), the S new tokens (B,S) -> prefix_lengths (B): all of them, if a row has no past.

    T stands for all tokens; they may be vectors (B,S,W).
    """
    past = filled_slots(attention_mask, tokens)  # (B)
    zero, width = op.Constant(value_int=0), op.Shape(attention_mask, start=1, end=2)
    prefix_lengths = op.Where(op.Equal(past, zero), width, zero)
    return prefix_lengths


@cache
def of_one_group(captured: bool) -> OnnxFunction:
    """Groups of queries (B,S) and of new tokens (B,N), new (B,T) -> true for a query and key of one group.

    `new` is the index of each key among the new tokens; it is out of range for a key of the cache. In a
    `captured` graph the device counts the new tokens, since the processor has their shape.
    """

    @script(domain, default_opset=op)
    def of_one_group(queries, groups, new):
        zero, minus = op.Constant(value_int=0), op.Constant(value_int=-1)
        if captured:
            ones = op.Expand(op.Constant(value_ints=[1]), op.Shape(groups, start=1, end=2))
            count = op.ReduceSum(ones, keepdims=0)
        else:
            count = op.Squeeze(op.Shape(groups, start=1, end=2))
        inside = op.And(op.GreaterOrEqual(new, zero), op.Less(new, count))
        numbers = op.Min(op.Max(new, zero), count - op.Constant(value_int=1))
        of_keys = op.Where(inside, op.GatherElements(groups, numbers, axis=1), minus)  # (B, T)
        each = op.Unsqueeze(queries, op.Constant(value_ints=[2]))  # (B, S, 1)
        equal = op.Equal(each, op.Unsqueeze(of_keys, op.Constant(value_ints=[1])))
        same = op.And(equal, op.GreaterOrEqual(each, zero))  # (B, S, T)
        return same

    return of_one_group


@cache
def grouped_cache_mask(window: int | None, bounded: bool, captured: bool = False) -> OnnxFunction:
    """As `cache_mask`, and queries of the groups `queries` (B,S) see all new tokens of their own.

    groups (B,N) are those of the new tokens, whose first slots are cache_lengths (B). A window limits how far
    back a query sees, in its own group too if that is `bounded`, but not how far ahead.
    """
    windowed, reach = window is not None, window or 0
    first, last, of_group = windowed and not bounded, windowed and bounded, of_one_group(captured)

    @script(domain, default_opset=op)
    def grouped_cache_mask(positions, past_k, queries, groups, cache_lengths):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        slots = op.Range(zero, op.Squeeze(op.Shape(past_k, start=2, end=3)), one)  # (C)
        query = op.Unsqueeze(positions, op.Constant(value_ints=[2]))  # (B, S, 1)
        new = slots - op.Unsqueeze(cache_lengths, op.Constant(value_ints=[1]))  # (B, C)
        past = op.LessOrEqual(slots, query)  # (B, S, C)
        if first:
            past = op.And(past, op.Less(query - slots, op.Constant(value_int=reach)))
        seen = op.Or(past, of_group(queries, groups, new))  # (B, S, C)
        if last:
            seen = op.And(seen, op.Less(query - slots, op.Constant(value_int=reach)))
        mask = op.Unsqueeze(seen, op.Constant(value_ints=[1]))  # (B, 1, S, C)
        return mask

    return grouped_cache_mask


@cache
def grouped_causal_mask(window: int | None, bounded: bool) -> OnnxFunction:
    """As `causal_mask`, and the S last tokens see all of their group in groups (B,S)."""
    windowed, reach = window is not None, window or 0
    early, last, of_group = windowed and not bounded, windowed and bounded, of_one_group(False)

    @script(domain, default_opset=op)
    def grouped_causal_mask(attention_mask, order, groups):
        zero, step = op.Constant(value_int=0), op.Constant(value_int=1)
        one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
        width, length = op.Shape(attention_mask, start=1, end=2), op.Shape(groups, start=1, end=2)
        first = width - length
        keys = op.Range(zero, op.Squeeze(width), step)  # (T)
        query = op.Range(zero, op.Squeeze(length), step) + first  # (S)
        past = op.LessOrEqual(keys, op.Unsqueeze(query, one))  # (S, T)
        rows = op.Concat(op.Shape(groups, start=0, end=1), width, axis=0)
        new = op.Expand(keys - first, rows)  # (B, T)
        real = op.Unsqueeze(op.Cast(attention_mask, to=9), one)  # (B, 1, T)
        if windowed:
            late = op.Unsqueeze(op.Slice(order, first, width, one), two)  # (B, S, 1)
            near = op.Less(late - op.Unsqueeze(order, one), op.Constant(value_int=reach))
        if early:
            past = op.And(past, near)  # (B, S, T)
        seen = op.And(op.Or(past, of_group(groups, groups, new)), real)  # (B, S, T)
        if last:
            seen = op.And(seen, near)
        mask = op.Unsqueeze(seen, one)  # (B, 1, S, T)
        return mask

    return grouped_causal_mask
