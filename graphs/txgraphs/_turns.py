"""Cosines and sines in sums and products, for devices whose own are inaccurate.

WGSL promises them within 2**-11 only, and no more where angles are large: WebGPU's rotated queries would be
off by 2e-4, and by 3e-3 after 40,000 tokens.
"""

import math

import onnx_ir as ir
from onnxscript import script

from txgraphs import domain
from txgraphs._constants import float32
from txgraphs._lowering import old

# Pi in parts. All but the last have 5 bits, so that their products with up to 2**19 half turns are exact.
PARTS = (25 / 2**3, 16 / 2**10, 31 / 2**15, 22 / 2**20)
PI = [float32(part) for part in (*PARTS, math.pi - sum(PARTS))]
TURNS = float32(1 / math.pi)
# Coefficients of sin(x)/x and cos(x) as polynomials in x**2 for up to a quarter turn, the last first.
SERIES = [
    float32(pair)
    for pair in (
        (-2.3888929945314885e-08, -2.6050341261907306e-07),
        (2.752525460891775e-06, 2.476009467500262e-05),
        (-0.00019840861205011606, -0.0013888359535485506),
        (0.008333330973982811, 0.04166663438081741),
        (-0.1666666716337204, -0.5),
        (1.0, 1.0),
    )
]
HIGHEST, FIFTH, FOURTH, THIRD, SECOND, FIRST = SERIES
FIRST_PART, SECOND_PART, THIRD_PART, FOURTH_PART, REST = PI


@script(domain, default_opset=old)
def cosine_and_sine(angles):
    """angles of any shape, float32, up to 1,600,000 either way -> their cosines and sines, within 3e-7."""
    half = old.Constant(value_float=0.5)
    turns = old.Floor(angles * old.Constant(value=TURNS) + half)  # half turns
    rest = angles - turns * old.Constant(value=FIRST_PART)
    rest = rest - turns * old.Constant(value=SECOND_PART)
    rest = rest - turns * old.Constant(value=THIRD_PART)
    rest = rest - turns * old.Constant(value=FOURTH_PART)
    rest = rest - turns * old.Constant(value=REST)  # up to a quarter turn either way
    square = old.Unsqueeze(rest * rest, old.Constant(value_ints=[-1]))
    both = square * old.Constant(value=HIGHEST) + old.Constant(value=FIFTH)  # of the sine, and of the cosine
    both = both * square + old.Constant(value=FOURTH)
    both = both * square + old.Constant(value=THIRD)
    both = both * square + old.Constant(value=SECOND)
    both = both * square + old.Constant(value=FIRST)
    pairs = turns * half
    sign = old.Constant(value_float=1.0) - (pairs - old.Floor(pairs)) * old.Constant(value_float=4.0)
    sine = old.Gather(both, old.Constant(value_int=0), axis=-1) * rest * sign
    cosine = old.Gather(both, old.Constant(value_int=1), axis=-1) * sign
    return cosine, sine


def spell_turns(model: ir.Model) -> ir.Model:
    """The same model, with its cosines and sines by `cosine_and_sine`."""
    function = ir.serde.deserialize_function(cosine_and_sine.to_function_proto())
    bodies: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for nodes in bodies:
        calls: dict[ir.Value | None, ir.Node] = {}
        for node in list(nodes):
            if node.domain == "" and node.op_type in ("Cos", "Sin"):
                angle = node.inputs[0]
                if angle not in calls:
                    calls[angle] = ir.node(
                        function.name,
                        [angle],
                        domain=function.domain,
                        name=f"{node.name}_turns",
                        num_outputs=2,
                    )
                    nodes.insert_before(node, calls[angle])
                result = calls[angle].outputs[node.op_type == "Sin"]
                ir.convenience.replace_nodes_and_values(nodes, node, [node], [], node.outputs, [result])
    function.opset_imports[""] = model.opset_imports[""]
    model.functions[function.identifier()] = function
    return model
