"""Vectors that are made for single layers, and the end of a layer that reads its own."""

import onnx_ir as ir

from txexport.spec import LayerInputSpec, LayerInputsSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("inputs")
def layer_inputs(
    spec: LayerInputsSpec, hidden_size: int, num_layers: int, g: Body, input_ids: ir.Value, x: ir.Value
) -> ir.Value:
    """For every token and layer a vector, of a table and of the embedded token (Gemma Team 2025).

    input_ids (B,S), their vectors x (B,S,W) -> inputs of layers (B,S,D,P).
    """
    op = g.op
    size, width = (op.Constant(value_float=number) for number in (spec.size**0.5, hidden_size**-0.5))
    layers = op.Constant(value_ints=[0, 0, num_layers, spec.size])
    if spec.partial:
        known = op.Less(input_ids, op.Constant(value_int=spec.vocab_size), name="known")
        input_ids = op.Where(known, input_ids, op.Constant(value_int=0), name="ids")  # (B, S)
    entries = op.Mul(g.table("word.weight").lookup(op, input_ids), size)
    entries = op.Reshape(entries, layers, name="entries")  # (B, S, D, P)
    projected = op.Reshape(op.Mul(linear(False, g / "project", x), width), layers)  # (B, S, D, P)
    total = op.Add(norm(spec.norm, g / "norm", projected), entries)
    inputs = op.Mul(total, op.Constant(value_float=2**-0.5))
    return inputs


@component("added")
def layer_input(spec: LayerInputSpec, g: Body, x: ir.Value, layer_input: ir.Value) -> ir.Value:
    """A layer's own vector, gated and added to the output (Gemma Team 2025).

    x (B,S,W), layer_input (B,S,P) -> what is added to x (B,S,W).
    """
    act = activation(spec.activation)
    gated = g.op.Mul(g.call(act, linear(False, g / "gate", x)), layer_input, name="gated")  # (B, S, P)
    added = norm(spec.norm, g / "norm", linear(False, g / "project", gated))  # (B, S, W)
    return added
