"""One vector of a sequence."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import Pick
from txgraphs import domain, op


@cache
def pick(kind: Pick, token: int | None) -> OnnxFunction:
    """One vector of each sequence: x (B,S,W), input_ids and attention_mask (B,S) -> picked (B,W).

    `token` is the padding id for LAST, the eos id for LAST_EOS and FIRST_EOS; for FIRST_AND_MEAN, which
    returns (B,2W), and MEAN_BEHIND the number of vectors that the mean skips. Only the kinds that read ids or
    the mask need these.
    """
    first, both, mean = (kind == k for k in (Pick.FIRST, Pick.FIRST_AND_MEAN, Pick.MEAN))
    final, behind, seen = (kind == k for k in (Pick.FINAL, Pick.MEAN_BEHIND, Pick.LAST_SEEN))
    shown, two = kind == Pick.FIRST_SEEN, kind == Pick.FIRST_TWO
    mean = mean or kind == Pick.MEAN_LATE
    last, marked, mark = (
        kind in (Pick.LAST, Pick.LAST_EOS, Pick.LAST_SEEN),
        kind == Pick.LAST_EOS,
        kind == Pick.FIRST_EOS,
    )
    registers, next_one = token is not None, (token or 0) + 1
    skips, number = kind == Pick.LAST and token is not None, token or 0

    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        one = op.Constant(value_ints=[1])
        if first:
            picked = op.Gather(x, op.Constant(value_int=0), axis=1)  # (B, W)
        elif two:
            second = op.Gather(x, op.Constant(value_int=1), axis=1)
            picked = (op.Gather(x, op.Constant(value_int=0), axis=1) + second) * 0.5  # (B, W)
        elif final:
            picked = op.Gather(x, op.Constant(value_int=-1), axis=1)
        elif both:
            if registers:
                start = op.Constant(value_ints=[next_one])
                rest = op.Slice(x, start, op.Shape(x, start=1, end=2), one)
            else:
                rest = op.Slice(x, one, op.Shape(x, start=1, end=2), one)  # (B, S - 1, W)
            picked = op.Concat(
                op.Gather(x, op.Constant(value_int=0), axis=1),
                op.ReduceSum(rest, one, keepdims=0) / op.CastLike(op.Shape(rest, start=1, end=2), x),
                axis=1,
            )  # (B, 2W)
        elif behind:
            if registers:
                rest = op.Slice(x, op.Constant(value_ints=[number]), op.Shape(x, start=1, end=2), one)
            else:
                rest = op.Identity(x)
            count = op.CastLike(op.Shape(rest, start=1, end=2), x)
            picked = op.ReduceSum(rest / count, one, keepdims=0)  # a sound's sum may be too much for float16
        elif mean:
            weights = op.Unsqueeze(op.CastLike(attention_mask, x), op.Constant(value_ints=[2]))  # (B, S, 1)
            picked = op.ReduceSum(x * weights, one, keepdims=0) / op.ReduceSum(weights, one, keepdims=0)
        else:
            if last:
                length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
                places = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
                score = op.Expand(places, op.Shape(input_ids))  # (B, S)
                if skips:
                    real = op.Not(op.Equal(input_ids, op.Constant(value_int=number)))
                    score = score * op.Cast(real, to=7)
                if seen:
                    score = score * attention_mask
                if marked:
                    ends = op.Equal(input_ids, op.Constant(value_int=number))
                    score = score * op.Cast(ends, to=7)
            elif shown:
                score = op.Identity(attention_mask)
            elif mark:
                score = op.Cast(op.Equal(input_ids, op.Constant(value_int=number)), to=7)
            else:
                score = op.Identity(input_ids)
            place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
            picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick
