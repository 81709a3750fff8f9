"""A decoder's graph in OpenVINO, with its caches as variables of the model in place of inputs and outputs."""

import numpy as np

from txexport.contracts import cache_names
from txexport.contracts.names import ATTENTION_MASK, INPUT_IDS, POSITION_IDS
from txexport.runtime.engines.openvino import openvino

op = openvino.opset13
BEAM_IDX = "beam_idx"


def count_positions(model: openvino.Model) -> None:
    """Replace the input position_ids by positions that are counted over attention_mask."""
    ports = {port.get_any_name(): port.get_node() for port in model.inputs}
    if POSITION_IDS not in ports:
        return
    one = op.constant([1], np.int64)
    counts = op.cumsum(ports[ATTENTION_MASK], op.constant(1, np.int64))
    positions = op.maximum(op.subtract(counts, one), op.constant(0, np.int64))  # (B,T); 0 at padding
    new = op.gather(op.shape_of(ports[INPUT_IDS]), one, op.constant(0, np.int64))  # S
    end = op.constant([np.iinfo(np.int64).max], np.int64)
    positions = op.slice(positions, op.negative(new), end, one, one)  # (B,S)
    for use in ports[POSITION_IDS].output(0).get_target_inputs():
        use.replace_source_output(positions.output(0))
    model.remove_parameter(ports[POSITION_IDS])


def keep_caches(model: openvino.Model) -> None:
    """Make each cache a variable, which begins empty or with zeros and is reordered by beam_idx."""
    inputs = {port.get_any_name(): port for port in model.inputs}
    first = op.constant(0, np.int64)
    batch = op.gather(op.shape_of(inputs[INPUT_IDS].get_node()), op.constant([0], np.int64), first)
    beams = op.parameter([-1], np.int32, BEAM_IDX)
    beams.output(0).set_names({BEAM_IDX})
    pairs = {name: cache_names.to_present(name) for name in inputs if cache_names.is_past(name)}
    for name in pairs:
        past = inputs[name].get_node().output(0)
        uses, reordered = past.get_target_inputs(), op.gather(past, beams, first)
        for use in uses:
            use.replace_source_output(reordered.output(0))
    model.add_parameters([beams])
    changes = openvino.passes.Manager()
    changes.register_pass(openvino.passes.MakeStateful(pairs))
    changes.run_passes(model)
    for node in model.get_ops():
        if node.get_type_name() == "ReadValue":
            sizes = [0 if size.is_dynamic else size.get_length() for size in node.get_output_partial_shape(0)]
            shape = op.concat([batch, op.constant(sizes[1:], np.int64)], 0)
            node.set_arguments([op.broadcast(op.constant(0, node.get_element_type()), shape).output(0)])
    model.validate_nodes_and_infer_types()
