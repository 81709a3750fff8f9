"""Maps interpolated to another size."""

from onnxscript import script

from txgraphs import domain, op


@script(domain, default_opset=op)
def bilinear(x, size):
    """x (B,F,r,c), size (2) -> y (B,F,*size), bilinear between the centres of pixels."""
    sizes = op.Concat(op.Shape(x, start=0, end=2), op.Reshape(size, op.Constant(value_ints=[2])), axis=0)
    y = op.Resize(x, None, None, sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    return y
