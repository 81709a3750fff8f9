"""Who may attend to whom. A mask is boolean: true where a query sees a key."""

from onnxscript import script

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
def causal_mask(attention_mask, input_ids):
    """As `padding_mask`, and no query sees a key after itself; the S queries are the last of the T keys."""
    keys = op.Unsqueeze(op.Cast(attention_mask, to=9), op.Constant(value_ints=[1, 2]))  # (B, 1, 1, T)
    width = op.Shape(attention_mask, start=1, end=2)
    length = op.Shape(input_ids, start=1, end=2)
    places = op.Range(op.Constant(value_int=0), op.Squeeze(width), op.Constant(value_int=1))  # (T)
    queries = op.Unsqueeze(op.Slice(places, width - length, width), op.Constant(value_ints=[1]))
    past = op.LessOrEqual(op.Unsqueeze(places, op.Constant(value_ints=[0])), queries)  # (S, T)
    mask = op.And(keys, past)  # (B, 1, S, T)
    return mask
