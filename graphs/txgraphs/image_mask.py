"""Masks of cross-attention to images: which tokens see which tiles (Alayrac et al. 2022, 2.3)."""

from functools import cache

from onnxscript import OnnxFunction, script

from txgraphs import domain, op


@cache
def image_mask(tiles: int, vectors: int) -> OnnxFunction:
    """Of tokens at `positions` (B,S): the mask (B,S,E), and whether a token sees an image (B,S,1).

    image_spans (B,I,3) has the first place that sees an image, the place that no longer does, and the number
    of its tiles, 0 for no image. An image has `tiles` tiles of `vectors` vectors each, among the keys k
    (B,K,E,H). A token that sees no image attends to all tiles of all images, padding too, as in the original.
    """

    @script(domain, default_opset=op)
    def image_mask(image_spans, positions, k):
        zero, one, two, three = (
            op.Constant(value_ints=[0]),
            op.Constant(value_ints=[1]),
            op.Constant(value_ints=[2]),
            op.Constant(value_ints=[3]),
        )
        none, step = op.Constant(value_int=0), op.Constant(value_int=1)
        spans = op.Unsqueeze(image_spans, one)  # (B, 1, I, 3)
        first = op.Squeeze(op.Slice(spans, zero, one, three), three)  # (B, 1, I)
        end = op.Squeeze(op.Slice(spans, one, two, three), three)
        count = op.Squeeze(op.Slice(spans, two, three, three), three)
        queries, real = op.Unsqueeze(positions, two), op.Greater(count, none)
        inside = op.And(op.And(op.LessOrEqual(first, queries), op.Less(queries, end)), real)  # (B, S, I)
        sees = op.Greater(op.ReduceSum(op.Cast(inside, to=7), two), none)  # (B, S, 1)
        numbers = op.Range(none, op.Constant(value_int=tiles), step)  # (T)
        shown = op.Less(numbers, op.Unsqueeze(count, three))  # (B, 1, I, T)
        some = op.And(op.Unsqueeze(inside, three), shown)  # (B, S, I, T)
        every = op.And(op.Unsqueeze(op.Not(sees), three), op.Unsqueeze(real, three))  # (B, S, I, 1)
        seen = op.Unsqueeze(op.Or(some, every), op.Constant(value_ints=[4]))
        each = op.Expand(seen, op.Constant(value_ints=[1, 1, 1, 1, vectors]))  # (B, S, I, T, V)
        wide = op.Shape(image_spans, start=1, end=2) * op.Constant(value_ints=[tiles * vectors])  # (1)
        rows = op.Shape(positions)  # (2)
        flat = op.Reshape(each, op.Concat(rows, wide, axis=0), allowzero=1)  # (B, S, I*T*V)
        rest = op.Concat(rows, op.Shape(k, start=2, end=3) - wide, axis=0)
        padding = op.Expand(op.Cast(zero, to=9), rest)  # (B, S, E - I*T*V)
        mask = op.Concat(flat, padding, axis=2)  # (B, S, E)
        return mask, sees

    return image_mask
