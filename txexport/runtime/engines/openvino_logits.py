"""Reduces a decoder's OpenVINO graph to the logits of the requested positions.

Graphs for other clients compute the logits of all new tokens. Of a prompt only the last token's logits are
needed, and of the last layer only that token's values after attention.
"""

import openvino

from txexport.contracts.names import LOGITS, LOGITS_INDICES

BEHIND_HEAD = ("Reshape", "Add", "Subtract", "Multiply", "Divide", "Tanh")  # from the head's MatMul to logits
ACTIVATIONS = (
    "Clamp",
    "Elu",
    "Erf",
    "Gelu",
    "HSwish",
    "Mish",
    "Relu",
    "Sigmoid",
    "SoftPlus",
    "Swish",
    "Tanh",
)
ARITHMETIC = ("Abs", "Add", "Divide", "Exp", "Maximum", "Minimum", "Multiply", "Power", "Sqrt", "Subtract")
ONE_BY_ONE = frozenset((*ACTIVATIONS, *ARITHMETIC, "Tanh"))
OVER_AXES = frozenset(("MVN", "ReduceMean", "ReduceSum"))
OF_SHAPES = frozenset(("ShapeOf", "ConvertLike"))
LAST = (-1, 2)  # indices of the last of three axes
READS_HIDDEN = frozenset(("Reshape", "MatMul", "ShapeOf"))


def pick_logits(model: openvino.Model) -> bool:
    """Make a decoder compute only the logits of `logits_indices` (B,L); returns whether that worked."""
    at = model.output(LOGITS).get_node().input_value(0)
    while (node := at.get_node()).get_type_name() != "MatMul":
        if node.get_type_name() not in BEHIND_HEAD:
            return False
        if node.get_type_name() != "Reshape" and not all(map(_is_constant, node.input_values()[1:])):
            return False  # such as the scales of quantised rows, which depend on the row
        at = node.input_value(0)
    if not _is_constant(node.input_value(1)):
        return False
    hidden = node.input_value(0)
    if hidden.get_node().get_type_name() == "Reshape":  # (B,S,D) to (B*S,D)
        hidden = hidden.get_node().input_value(0)
    readers = [target.get_node() for target in hidden.get_target_inputs()]
    heads = [reader for reader in readers if reader.get_type_name() != "Result"]
    if not all(reader.get_type_name() in READS_HIDDEN for reader in heads) or not _of_tokens(hidden):
        return False
    indices = openvino.opset13.parameter([-1, -1], openvino.Type.i64, LOGITS_INDICES)
    indices.output(0).get_tensor().set_names({LOGITS_INDICES})
    _pick(_tail(model, hidden.get_node(), {reader.get_name() for reader in heads}), indices)
    model.add_parameters([indices])
    return True


def _tail(model: openvino.Model, last: openvino.Node, head: set[str]) -> dict[str, openvino.Node]:
    """By name: the head, and nodes up to `last` that work on each token and that only the tail reads."""
    tail: dict[str, openvino.Node] = {}
    begun = False
    for node in reversed(model.get_ordered_ops()):
        begun = begun or node.get_name() == last.get_name()
        readers = [target.get_node() for port in node.outputs() for target in port.get_target_inputs()]
        read = readers and all(reader.get_name() in tail for reader in readers)
        if node.get_name() in head or (begun and read and _token_by_token(node)):
            tail[node.get_name()] = node
    return tail


def _pick(tail: dict[str, openvino.Node], indices: openvino.Node) -> None:
    """Gather the positions `indices` (B,L) of vectors (B,S,W) that `tail` reads from other nodes."""
    picked: dict[tuple[str, int], openvino.Node] = {}
    for node in tail.values():
        for port in node.inputs():
            source = port.get_source_output()
            if source.get_node().get_name() in tail or not _of_tokens(source):
                continue
            name = source.get_node().get_name(), source.get_index()
            if name not in picked:
                picked[name] = openvino.opset13.gather(source, indices, 1, batch_dims=1)
            port.replace_source_output(picked[name].output(0))


def _token_by_token(node: openvino.Node) -> bool:
    """Return whether a node works on each token separately, or computes the size of vectors."""
    kind, inputs = node.get_type_name(), node.input_values()
    if kind in OF_SHAPES:
        return True
    if kind == "Slice":
        return inputs[0].get_node().get_type_name() == "ShapeOf" and _number(inputs[1]) in LAST
    if not _of_tokens(node.output(0)):
        return False
    if kind == "MatMul":
        return _is_constant(inputs[1]) and not node.get_attributes()["transpose_a"]
    if kind in OVER_AXES:
        return _number(inputs[1]) in LAST
    return kind in ONE_BY_ONE and all(_of_tokens(value) or _is_one_vector(value) for value in inputs)


def _of_tokens(value: openvino.Output) -> bool:
    """Return whether an output is (B,S,W) with dynamic B and S."""
    shape = value.get_partial_shape()
    return shape.rank.is_static and len(shape) == 3 and shape[0].is_dynamic and shape[1].is_dynamic


def _is_one_vector(value: openvino.Output) -> bool:
    """Return whether an output is the same for every token."""
    shape = value.get_partial_shape()
    return shape.rank.is_static and all(dim.is_static and dim.get_length() == 1 for dim in [*shape][:-1])


def _number(value: openvino.Output) -> int | None:
    """The only number that a constant holds, or a range; None for anything else."""
    node = value.get_node()
    if node.get_type_name() == "Range" and value.get_partial_shape().is_static:
        node = node.input_value(0).get_node()
    if node.get_type_name() != "Constant" or node.data.size != 1:
        return None
    return int(node.data.item())


def _is_constant(value: openvino.Output) -> bool:
    """Return whether an output depends on no input."""
    node = value.get_node()
    if node.get_type_name() == "Parameter":
        return False
    return all(map(_is_constant, node.input_values()))
