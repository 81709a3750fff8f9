"""Where tokens stand in their sequence."""

from onnxscript import script

from txgraphs import domain, op


@script(domain, default_opset=op)
def positions(input_ids, start):
    """input_ids (B,S), start (B) or (1): tokens that come before -> positions (B,S) or (1,S)."""
    length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
    steps = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
    places = op.Unsqueeze(start, op.Constant(value_ints=[1])) + steps  # (B, S)
    return places
