"""Copies of a decoder's states, for clients that bind a past state and the present one to the same buffer.

onnxruntime-genai does that. Without copies, a node may overwrite a state that another node has still to read.
"""

import onnx_ir as ir

from txexport.contracts.cache_names import past_states
from txgraphs._few_buffers import name_all


def with_copied_states(model: ir.Model) -> ir.Model:
    """The same flat model, in which all nodes read a copy of each state.

    Whatever computes the present state depends on the copy, so the copy comes first. It is a Concat of one
    tensor, since ONNX Runtime removes an Identity.
    """
    inputs = {str(value.name): value for value in model.graph.inputs}
    copies = []
    for name in past_states(inputs):
        state = inputs[name]
        copy = ir.node("Concat", [state], {"axis": 0})
        name_all([copy], f"{name}/copy")
        copy.outputs[0].type, copy.outputs[0].shape = state.type, state.shape
        for use in [*state.uses()]:
            if use.node is not copy:
                use.node.replace_input_with(use.idx, copy.outputs[0])
        copies.append(copy)
    if copies:
        model.graph.insert_before(model.graph[0], copies)
    return model
