"""Maps of twice as many rows and columns."""

from onnxscript import script

from txgraphs import domain, op
from txgraphs._constants import float32


@script(domain, default_opset=op)
def doubled(x):
    """x (B,W,R,C) -> y (B,W,2R,2C): each place four times."""
    y = op.Resize(
        x,
        None,
        op.Constant(value=float32([1.0, 1.0, 2.0, 2.0])),
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return y
