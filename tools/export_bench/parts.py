"""Faults of what a graph computes and returns: parts left out, caches, shapes, outputs."""

import numpy as np
import onnx
from helpers.graph_edits import attribute, drop, named, producer, set_attribute
from onnx import helper, numpy_helper

from export_bench.edits import Edit
from export_bench.faults import Fault, past_length

INT = np.int64


def shaped(name: str, *shape: int) -> Fault:
    """An output of a shape in which the size of the traced example is left."""

    def fault(model: onnx.ModelProto) -> None:
        Edit(model).output(name, lambda right: _reshape(model, right, shape))

    return fault


def _reshape(model: onnx.ModelProto, value: str, shape: tuple[int, ...]) -> str:
    edit = Edit(model)
    result = edit.op("Reshape", value, np.array(shape, INT))
    edit.finish()
    return result


def fixed_heads(batch: int, place: int = 0) -> Fault:
    """A Reshape into heads, the first of all or that of `place`, for the traced batch alone."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        split = [one for one in edit.graph.node if one.op_type == "Reshape"][place]
        shape = numpy_helper.to_array(attribute(producer(model.graph, split.input[1]), "value")).tolist()
        split.input[1] = edit.op("Identity", np.array([batch, *shape[1:]], INT))
        edit.finish()

    return fault


def fixed_length(count: int) -> Fault:
    """Positions expanded to the traced length."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        table = next(one for one in edit.graph.node if one.op_type == "Gather" and "position" in one.input[0])
        edit.replace(table.input[1], edit.op("Reshape", table.input[1], np.array([-1, count], INT)))

    return fault


def new_before_past(model: onnx.ModelProto) -> None:
    """A cache in which new keys and values precede the past ones."""
    for one in model.graph.node:
        if one.op_type == "Concat" and one.output[0].startswith("present."):
            one.input[:] = reversed(one.input)


def exchanged(first: str, second: str) -> Fault:
    """Two outputs, each under the other's name."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        edit.output(first, lambda right: right)
        edit.output(second, lambda right: right)
        names = {f"{first}.right": f"{second}.right", f"{second}.right": f"{first}.right"}
        for one in model.graph.node:
            if one.output[0] in (first, second):
                one.input[0] = names[one.input[0]]

    return fault


def inputs_exchanged(first: str, second: str) -> Fault:
    """Two inputs, each read for the other."""

    def fault(model: onnx.ModelProto) -> None:
        names = {first: second, second: first}
        for one in model.graph.node:
            one.input[:] = [names.get(name, name) for name in one.input]

    return fault


def read_for(old: str, new: str) -> Fault:
    """One input read in another's place."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        edit.replace(old, edit.op("Identity", new))

    return fault


def last_row_of_logits(model: onnx.ModelProto) -> None:
    """Logits that are the last position's at every position."""

    def last(right: str) -> str:
        edit = Edit(model)
        row = edit.op("Slice", right, np.array([-1]), np.array([2**31]), np.array([1]))
        result = edit.op("Add", edit.op("Mul", right, np.array(0, np.float32)), row)
        edit.finish()
        return result

    Edit(model).output("logits", last)


def present_of_new_tokens(model: onnx.ModelProto) -> None:
    """A first layer whose present keys lose the oldest token as soon as there is a past."""

    def shifted(right: str) -> str:
        edit = Edit(model)
        count = edit.op("Min", past_length(edit), np.array([1]))
        start = edit.op("Slice", right, count, np.array([2**31]), np.array([2]))
        end = edit.op("Slice", right, np.array([0]), count, np.array([2]))
        result = edit.op("Concat", start, end, axis=2)
        edit.finish()
        return result

    Edit(model).output("present.0.key", shifted)


def without(name: str, place: int = 0) -> Fault:
    """A node left out: its input stands for its output."""
    return lambda model: drop(named(model, name), place)


def without_last(kind: str) -> Fault:
    """The last node of an operator left out."""
    return lambda model: drop([one for one in model.graph.node if one.op_type == kind][-1])


def without_final_norm(weight: str) -> Fault:
    """A norm left out whose scale has that name, in either spelling."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        norm = next(one for one in model.graph.node if weight in one.input)
        if norm.op_type == "LayerNormalization":
            drop(norm)
            return
        division = producer(model.graph, norm.input[0])
        norm.CopyFrom(helper.make_node("Identity", [division.input[0]], norm.output, name=norm.name))
        edit.finish()

    return fault


def with_attribute(kind: str, name: str, value: object) -> Fault:
    """Another value of an attribute of every node of an operator."""

    def fault(model: onnx.ModelProto) -> None:
        nodes = [one for one in model.graph.node if one.op_type == kind]
        assert nodes, kind
        for one in nodes:
            set_attribute(one, name, value)

    return fault


def soft_mask(number: float) -> Fault:
    """Masked scores that are lower by a number, not minus infinity."""

    def fault(model: onnx.ModelProto) -> None:
        masks = [
            one for one in model.graph.node if one.op_type == "Where" and one.output[0].startswith("bias")
        ]
        assert masks
        for one in masks:
            edit = Edit(model)
            one.input[2] = edit.op("Identity", np.array(number, np.float32))
            edit.finish()

    return fault


def softmax_over(axis: int) -> Fault:
    """Attention weights that add up to 1 over another axis."""
    return with_attribute("Softmax", "axis", axis)


def first_token_instead(output: str, place: int) -> Fault:
    """A pooled vector read at another token."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        pick = next(
            one for one in model.graph.node if one.op_type == "Gather" and one.output[0].startswith(output)
        )
        pick.input[1] = edit.op("Identity", np.array(place))
        edit.finish()

    return fault


def half_precision(*names: str) -> Fault:
    """Outputs computed in float16: cast down and back."""

    def fault(model: onnx.ModelProto) -> None:
        for name in names:

            def cast(right: str) -> str:
                edit = Edit(model)
                half = edit.op("Cast", right, to=onnx.TensorProto.FLOAT16)
                result = edit.op("Cast", half, to=onnx.TensorProto.FLOAT)
                edit.finish()
                return result

            Edit(model).output(name, cast)

    return fault


def unscaled_logits(model: onnx.ModelProto) -> None:
    """A tied head that does not scale what it reads."""
    drop(named(model, "Mul"))


def last_vector_classified(model: onnx.ModelProto) -> None:
    """A classifier over the last vector."""
    edit = Edit(model)
    pick = [one for one in model.graph.node if one.op_type == "Gather"][-1]
    pick.input[1] = edit.op("Identity", np.array(-1))
    edit.finish()


def last_token_of_text(model: onnx.ModelProto) -> None:
    """A text's vector read at the last place."""
    edit = Edit(model)
    pick = next(one for one in model.graph.node if one.op_type == "GatherND")
    width = edit.op("Shape", "input_ids", start=1, end=2)
    last = edit.op("Sub", width, np.array([1]))
    pick.input[1] = edit.op("Add", edit.op("Mul", pick.input[1], np.array(0)), last)
    edit.finish()


def one_frame_later(model: onnx.ModelProto) -> None:
    """A first convolution over time that begins one frame later."""
    convolution = next(one for one in model.graph.node if one.op_type == "Conv")
    before, after = attribute(convolution, "pads")
    set_attribute(convolution, "pads", [before - 1, after + 1])
