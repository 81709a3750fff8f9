"""Constants of graphs, in the form that every tool reads."""

from collections.abc import Iterable

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir


def float32(numbers: npt.ArrayLike) -> onnx.TensorProto:
    """Numbers as a float32 tensor, for a constant that keeps this type in every graph."""
    return onnx.numpy_helper.from_array(np.array(numbers, np.float32))


def make_tensors(nodes: Iterable[ir.Node], dtype: ir.DataType) -> None:
    """Write constants as tensors, which every tool reads, and numbers in the graph's type.

    Each tensor is the graph's own: a component's are recorded once for all graphs, and tools name them.
    Numbers beyond that type become its largest or smallest number, such as a mask's, which must stay finite.
    """
    for node in list(nodes):
        if node.op_type != "Constant":
            continue
        if "value" in node.attributes:
            recorded = node.attributes["value"].as_tensor()
            copy = ir.Tensor(recorded.numpy(), dtype=recorded.dtype)
            node.attributes["value"] = ir.AttrTensor("value", copy)
            continue
        [(kind, attribute)] = node.attributes.items()
        if attribute.is_ref():  # a number that is an attribute of the function
            if dtype != ir.DataType.FLOAT:
                _narrow(node, dtype)
            continue
        numbers = np.array(attribute.value, np.float32 if "float" in kind else np.int64)
        if "float" in kind:
            limits = ml_dtypes.finfo(dtype.numpy())
            numbers = numbers.clip(float(limits.min), float(limits.max)).astype(dtype.numpy())
        node.attributes.clear()
        node.attributes["value"] = ir.AttrTensor("value", ir.tensor(numbers))
        if node.outputs[0].type is not None:
            node.outputs[0].type = ir.TensorType(ir.DataType.from_numpy(numbers.dtype))


def _narrow(node: ir.Node, dtype: ir.DataType) -> None:
    """Cast the output of a node for its readers."""
    wide = node.outputs[0]
    cast = ir.node("Cast", [wide], {"to": dtype}, outputs=[ir.Value(name=f"{wide.name}_narrow")])
    ir.convenience.replace_all_uses_with(wide, cast.outputs[0])
    cast.replace_input_with(0, wide)
    assert node.graph is not None
    node.graph.insert_after(node, cast)
