"""One vector of a sequence: x (B,S,W), input_ids and attention_mask (B,S) -> picked (B,W)."""

from functools import cache
from typing import assert_never

from onnxscript import OnnxFunction, script

from txexport.spec import Pick
from txgraphs import domain, op


@cache
def pick(kind: Pick, token: int | None) -> OnnxFunction:
    """The function that picks a vector by that kind.

    `token` is the id of padding for LAST, of what ends a text for LAST_EOS and FIRST_EOS; only the kinds that
    read ids or the mask need them. FIRST_AND_MEAN gives (B,2W), of which `token` are left out of the mean, as
    of MEAN_BEHIND's.
    """
    match kind:
        case Pick.FIRST:
            return _at(0)
        case Pick.FINAL:
            return _at(-1)
        case Pick.FIRST_TWO:
            return _first_two()
        case Pick.FIRST_AND_MEAN:
            return _first_and_mean(1 + (token or 0))
        case Pick.MEAN_BEHIND:
            return _mean_behind(token or 0)
        case Pick.MEAN | Pick.MEAN_LATE:
            return _mean()
        case Pick.FIRST_SEEN:
            return _first_seen()
        case Pick.LAST_SEEN:
            return _last_seen()
        case Pick.LAST:
            return _last() if token is None else _last_but(token)
        case Pick.LAST_EOS:
            return _last_of(token or 0)
        case Pick.FIRST_EOS:
            return _first_of(token or 0)
        case Pick.ARGMAX_ID:
            return _highest_id()
        case _:
            assert_never(kind)


def _at(place: int) -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        picked = op.Gather(x, op.Constant(value_int=place), axis=1)  # (B, W)
        return picked

    return pick


def _first_two() -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        second = op.Gather(x, op.Constant(value_int=1), axis=1)
        picked = (op.Gather(x, op.Constant(value_int=0), axis=1) + second) * 0.5  # (B, W)
        return picked

    return pick


def _first_and_mean(start: int) -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        one = op.Constant(value_ints=[1])
        rest = op.Slice(x, op.Constant(value_ints=[start]), op.Shape(x, start=1, end=2), one)
        mean = op.ReduceSum(rest, one, keepdims=0) / op.CastLike(op.Shape(rest, start=1, end=2), x)
        picked = op.Concat(op.Gather(x, op.Constant(value_int=0), axis=1), mean, axis=1)  # (B, 2W)
        return picked

    return pick


def _mean_behind(start: int) -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        one = op.Constant(value_ints=[1])
        rest = op.Slice(x, op.Constant(value_ints=[start]), op.Shape(x, start=1, end=2), one)
        count = op.CastLike(op.Shape(rest, start=1, end=2), x)
        picked = op.ReduceSum(rest / count, one, keepdims=0)  # a sound's sum may overflow float16
        return picked

    return pick


def _mean() -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        one = op.Constant(value_ints=[1])
        weights = op.Unsqueeze(op.CastLike(attention_mask, x), op.Constant(value_ints=[2]))  # (B, S, 1)
        picked = op.ReduceSum(x * weights, one, keepdims=0) / op.ReduceSum(weights, one, keepdims=0)
        return picked

    return pick


def _first_seen() -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        score = op.Identity(attention_mask)
        place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
        picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick


def _last_seen() -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
        places = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
        score = op.Expand(places, op.Shape(input_ids))  # (B, S)
        score = score * attention_mask
        place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
        picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick


def _last() -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
        places = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
        score = op.Expand(places, op.Shape(input_ids))  # (B, S)
        place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
        picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick


def _last_but(padding: int) -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
        places = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
        score = op.Expand(places, op.Shape(input_ids))  # (B, S)
        real = op.Not(op.Equal(input_ids, op.Constant(value_int=padding)))
        score = score * op.Cast(real, to=7)
        place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
        picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick


def _last_of(token: int) -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
        places = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
        score = op.Expand(places, op.Shape(input_ids))  # (B, S)
        ends = op.Equal(input_ids, op.Constant(value_int=token))
        score = score * op.Cast(ends, to=7)
        place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
        picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick


def _first_of(token: int) -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        score = op.Cast(op.Equal(input_ids, op.Constant(value_int=token)), to=7)
        place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
        picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick


def _highest_id() -> OnnxFunction:
    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        score = op.Identity(input_ids)
        place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
        picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick
