"""Vectors of images in the places of the tokens that stand for them."""

from functools import cache

from onnxscript import OnnxFunction, script

from txgraphs import domain, op


@cache
def spliced(image_token_id: int, captured: bool = False) -> OnnxFunction:
    """x (B,S,W), input_ids (B,S), image_features (N,W) -> y (B,S,W), x with features in their order.

    The first N tokens `image_token_id`, row by row, have the features; a later one keeps its own vector. In a
    `captured` graph the device counts the features, since the processor has their shape.
    """

    @script(domain, default_opset=op)
    def spliced(x, input_ids, image_features):
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        every = op.Reshape(input_ids, op.Constant(value_ints=[-1]))
        flat = op.Equal(every, op.CastLike(op.Constant(value_int=image_token_id), every))  # (B*S)
        order = op.CumSum(op.Cast(flat, to=7), zero) - one
        if captured:
            ones = op.Expand(op.Constant(value_ints=[1]), op.Shape(image_features, start=0, end=1))
            count = op.Squeeze(op.ReduceSum(ones))  # CUDA reduces no features to no dimension
        else:
            count = op.Squeeze(op.Shape(image_features, start=0, end=1))
        taken = op.And(flat, op.Less(order, count))  # (B*S)
        width = op.Shape(image_features, start=1, end=2)
        none = op.Expand(op.CastLike(op.Constant(value_float=0.0), image_features), width)
        last = op.Concat(image_features, op.Unsqueeze(none, op.Constant(value_ints=[0])), axis=0)  # (N+1, W)
        index = op.Where(taken, order, count)
        shape = op.Concat(op.Shape(input_ids), op.Constant(value_ints=[-1]), axis=0)
        vectors = op.Reshape(op.Gather(last, index), shape)  # (B, S, W)
        replaced = op.Reshape(taken, op.Concat(op.Shape(input_ids), op.Constant(value_ints=[1]), axis=0))
        y = op.Where(replaced, vectors, x)
        return y

    return spliced
