"""Right rewritings of an export: other names, another order, other operators, the same numbers."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from helpers.graph_edits import producer
from onnx import helper, numpy_helper

from export_bench.edits import Edit, ordered

Rewrite = Callable[[onnx.ModelProto], None]


def renamed(model: onnx.ModelProto) -> None:
    """Names without meaning for every value, node and weight but inputs and outputs."""
    fixed = {one.name for one in (*model.graph.input, *model.graph.output)}
    names: dict[str, str] = {}

    def other(name: str) -> str:
        return name if not name or name in fixed else names.setdefault(name, f"val_{len(names)}")

    for place, one in enumerate(model.graph.node):
        one.name = f"node_{place}"
        one.input[:] = map(other, one.input)
        one.output[:] = map(other, one.output)
    for array in model.graph.initializer:
        array.name = other(array.name)
    del model.graph.value_info[:]


def reordered(model: onnx.ModelProto) -> None:
    """Weights in reverse; nodes as late as their readers allow, with a seeded draw between those."""
    weights = list(model.graph.initializer)
    nodes = list(model.graph.node)
    np.random.default_rng(0).shuffle(nodes)
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(reversed(weights))
    model.graph.node.extend(ordered(nodes))


def as_constants(model: onnx.ModelProto) -> None:
    """Weights of one dimension as Constant nodes."""
    small = [one for one in model.graph.initializer if len(one.dims) == 1]
    large = [one for one in model.graph.initializer if len(one.dims) != 1]
    del model.graph.initializer[:]
    model.graph.initializer.extend(large)
    constants = [helper.make_node("Constant", [], [one.name], value=one) for one in small]
    nodes = [*constants, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def optimised(level: str) -> Rewrite:
    """The graph as onnxruntime writes it after its optimisations up to a level, on any processor."""

    def rewrite(model: onnx.ModelProto) -> None:
        import onnxruntime

        with tempfile.TemporaryDirectory() as folder:
            before, after = Path(folder, "before.onnx"), Path(folder, "after.onnx")
            onnx.save(model, before)
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.graph_optimization_level = getattr(
                onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}"
            )
            options.optimized_model_filepath = str(after)
            onnxruntime.InferenceSession(before, options, providers=["CPUExecutionProvider"])
            model.CopyFrom(onnx.load(after))

    return rewrite


def transposed_weights(model: onnx.ModelProto) -> None:
    """Products over a Transpose of the transposed weight."""
    edit = Edit(model)
    weights = {one.name: one for one in model.graph.initializer}
    for one in [one for one in model.graph.node if one.op_type == "MatMul" and one.input[1] in weights]:
        array = numpy_helper.to_array(weights[one.input[1]])
        one.input[1] = edit.op("Transpose", np.ascontiguousarray(array.T), perm=[1, 0])
    edit.finish()
    _without_unread(model)


def double_products(model: onnx.ModelProto) -> None:
    """The product of each feed-forward network's output in float64, cast back."""
    edit = Edit(model)
    for one in [one for one in model.graph.node if one.op_type == "MatMul" and "down.weight" in one.input[1]]:
        one.input[:] = [edit.op("Cast", name, to=onnx.TensorProto.DOUBLE) for name in one.input]
        result, one.output[0] = one.output[0], f"{one.output[0]}.double"
        edit.new.append(
            helper.make_node(
                "Cast", [one.output[0]], [result], name=f"{result}.cast", to=onnx.TensorProto.FLOAT
            )
        )
    edit.finish()


def split_sums(model: onnx.ModelProto) -> None:
    """Feed-forward networks with their inner dimensions in reverse: another order of each sum."""
    for weight in model.graph.initializer:
        axis = {"gate": 1, "up": 1, "down": 0}.get(weight.name.rpartition(".weight")[0].rpartition(".")[2])
        if "feed_forward" in weight.name and axis is not None:
            array = np.ascontiguousarray(np.flip(numpy_helper.to_array(weight), axis))
            weight.CopyFrom(numpy_helper.from_array(array, weight.name))


def halved_pixels(model: onnx.ModelProto) -> None:
    """Pixels divided by 2 and a first convolution's weights doubled, which changes no bit."""
    edit = Edit(model)
    edit.replace("pixel_values", edit.op("Mul", "pixel_values", np.array(0.5, np.float32)))
    convolution = next(one for one in model.graph.node if one.op_type == "Conv")
    weight = next(one for one in model.graph.initializer if one.name == convolution.input[1])
    weight.CopyFrom(numpy_helper.from_array(2 * numpy_helper.to_array(weight), weight.name))


def large_negative_mask(model: onnx.ModelProto) -> None:
    """Masked scores of -1e9."""
    for one in model.graph.node:
        if one.op_type == "Where" and one.output[0].startswith("bias"):
            constant = producer(model.graph, one.input[2])
            array = numpy_helper.from_array(np.array(-1e9, np.float32))
            constant.attribute[0].t.CopyFrom(array)


def _without_unread(model: onnx.ModelProto) -> None:
    read = {name for one in model.graph.node for name in one.input}
    left = [one for one in model.graph.initializer if one.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(left)
