"""The mask of a sound's vectors, which convolutions make of fewer of its samples or frames."""

import onnx_ir as ir

from txgraphs._component import Body, component


@component("mask")
def source_mask(
    convolutions: tuple[tuple[int, int], ...], axis: int, g: Body, attention_mask: ir.Value, x: ir.Value
) -> ir.Value:
    """attention_mask (B,N) of 0 and 1 -> mask (B,E): 1 for the vectors of real samples or frames.

    x has E vectors along `axis`. Each of the `convolutions` is a kernel and a stride.
    """
    op = g.op
    lengths = op.ReduceSum(attention_mask, op.Constant(value_ints=[1]), keepdims=1, name="lengths")  # (B, 1)
    for kernel, stride in convolutions:
        # Division rounds towards zero, so that what it divides is not negative where vectors are left.
        counted = op.Add(lengths, op.Constant(value_ints=[stride - kernel]))
        lengths = op.Div(counted, op.Constant(value_ints=[stride]), name="lengths")
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    order = op.Range(zero, op.Squeeze(op.Shape(x, start=axis, end=axis + 1)), one, name="order")  # (E)
    mask = op.Cast(op.Less(order, lengths), to=ir.DataType.INT64)
    return mask
