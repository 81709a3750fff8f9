"""Faults of graphs: each takes an exported model and makes it wrong."""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper

from export_bench.edits import Edit, attribute, drop, named, producer, set_attribute

Fault = Callable[[onnx.ModelProto], None]
INT = np.int64


def ones(name: str) -> Fault:
    """An input that counts as ones, whatever it holds."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        edit.replace(name, edit.op("Add", edit.op("Mul", name, np.array(0)), np.array(1)))

    return fault


def zeros(name: str) -> Fault:
    """An input that counts as zeros, whatever it holds."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        edit.replace(name, edit.op("Mul", name, np.array(0)))

    return fault


def plus(name: str, number: int) -> Fault:
    """A value one or more too high."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        edit.replace(name, edit.op("Add", name, np.array(number)))

    return fault


def mask_of_first(name: str, count: int) -> Fault:
    """A mask that is right for the first keys, and 0 for all later ones."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        places = edit.op("Sub", edit.op("CumSum", edit.op("Add", edit.op("Mul", name, np.array(0)), np.array(1)),
                                        np.array(1)), np.array(1))  # fmt: skip
        early = edit.op("Cast", edit.op("Less", places, np.array(count)), to=onnx.TensorProto.INT64)
        edit.replace(name, edit.op("Mul", name, early))

    return fault


def past_length(edit: Edit) -> str:
    """The number of past tokens, of shape (1)."""
    name = next(one.name for one in edit.graph.input if one.name.startswith("past_key_values.0."))
    return edit.op("Shape", name, start=2, end=3)


def counted_positions(edit: Edit) -> str:
    """Positions 0, 1, … (B,S) of the tokens given, whatever stands before them."""
    given = edit.op("Add", edit.op("Mul", "input_ids", np.array(0)), np.array(1))
    return edit.op("Sub", edit.op("CumSum", given, np.array(1)), np.array(1))


def positions_of_places(model: onnx.ModelProto) -> None:
    """Positions that count padding, and not what position_ids says."""
    edit = Edit(model)
    edit.replace("position_ids", edit.op("Add", counted_positions(edit), past_length(edit)))


def positions_without_past(model: onnx.ModelProto) -> None:
    """Positions that begin at 0 in every pass."""
    edit = Edit(model)
    edit.replace("position_ids", counted_positions(edit))


def positions_behind_past(model: onnx.ModelProto) -> None:
    """Positions one too high as soon as there is a past."""
    edit = Edit(model)
    edit.replace(
        "position_ids", edit.op("Add", "position_ids", edit.op("Min", past_length(edit), np.array([1])))
    )


def positions_by_mask(model: onnx.ModelProto) -> None:
    """An encoder's positions counted by the mask, where the original counts every place."""
    edit = Edit(model)
    counted = edit.op("Sub", edit.op("CumSum", "attention_mask", np.array(1)), np.array(1))
    table = next(one for one in edit.graph.node if one.op_type == "Gather" and "position" in one.input[0])
    edit.replace(table.input[1], edit.op("Max", counted, np.array(0)))


def positions_up_to(last: int) -> Fault:
    """Positions that stop at a last one."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        table = next(one for one in edit.graph.node if one.op_type == "Gather" and "position" in one.input[0])
        edit.replace(table.input[1], edit.op("Min", table.input[1], np.array(last)))

    return fault


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


def fixed_heads(batch: int) -> Fault:
    """The first split into heads for the traced batch alone."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        split = next(one for one in edit.graph.node if one.op_type == "Reshape")
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


def later_keys(count: int) -> Fault:
    """A causal mask whose edge lies so many keys later, or earlier."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        edge = next(one for one in edit.graph.node if one.op_type == "LessOrEqual")
        edge.input[1] = edit.op("Add", edge.input[1], np.array(count))
        edit.finish()

    return fault


def edge_without_past(model: onnx.ModelProto) -> None:
    """A causal mask aligned to the first key, as if there were no past."""
    edit = Edit(model)
    edge = next(one for one in edit.graph.node if one.op_type == "LessOrEqual")
    edge.input[1] = edit.op("Sub", edge.input[1], past_length(edit))
    edit.finish()


def causal_by_first_row(model: onnx.ModelProto) -> None:
    """The mask of the batch's first row for all rows."""
    edit = Edit(model)
    first = edit.op("Slice", "attention_mask", np.array([0]), np.array([1]), np.array([0]))
    zeros_like = edit.op("Mul", "attention_mask", np.array(0))
    edit.replace("attention_mask", edit.op("Add", zeros_like, first))


def new_before_past(model: onnx.ModelProto) -> None:
    """A cache in which new keys and values stand before the past ones."""
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
        found = [
            one for one in model.graph.node if one.op_type == "Where" and one.output[0].startswith("bias")
        ]
        assert found
        for one in found:
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


def all_of(*faults: Fault) -> Fault:
    """Several changes together."""

    def fault(model: onnx.ModelProto) -> None:
        for one in faults:
            one(model)

    return fault


def padding_counts(model: onnx.ModelProto) -> None:
    """Positions of every place, where the original leaves padding out."""
    edit = Edit(model)
    real = next(one for one in model.graph.node if one.op_type == "Where" and one.output[0] == "real")
    edit.replace("real", edit.op("Max", "real", np.array(1)))
    assert real


def with_past(edit: Edit) -> str:
    """1 where there is a past, else 0, of shape (1)."""
    return edit.op("Min", past_length(edit), np.array([1]))


def mask_forgotten_with_past(model: onnx.ModelProto) -> None:
    """A mask that counts as ones as soon as there is a past."""
    edit = Edit(model)
    edit.replace("attention_mask", edit.op("Max", "attention_mask", with_past(edit)))


def window_forgotten_in_steps(model: onnx.ModelProto) -> None:
    """A window that passes of a single token do not have."""
    edit = Edit(model)
    window = next(one for one in model.graph.node if one.op_type == "Less")
    single = edit.op("Less", edit.op("Shape", "input_ids", start=1, end=2), np.array([2]))
    wide = edit.op("Mul", edit.op("Cast", single, to=onnx.TensorProto.INT64), np.array([10**6]))
    window.input[1] = edit.op("Add", window.input[1], wide)
    edit.finish()


def distances_without_past(model: onnx.ModelProto) -> None:
    """Queries that stand at position 0 for what depends on their positions, whatever the past."""
    edit = Edit(model)
    edit.replace("v_positions.places", edit.op("Mul", "v_positions.places", np.array(0)))


first_position = distances_without_past


def unscaled_logits(model: onnx.ModelProto) -> None:
    """A tied head that does not scale what it reads."""
    drop(named(model, "Mul"))


def mask_forgotten_in_branch(model: onnx.ModelProto) -> None:
    """A mask of the encoder that counts as ones where use_cache_branch is true."""
    edit = Edit(model)
    branch = edit.op("Cast", "use_cache_branch", to=onnx.TensorProto.INT64)
    edit.replace("encoder_attention_mask", edit.op("Max", "encoder_attention_mask", branch))


def fixed_heads_of(place: int, batch: int) -> Fault:
    """As `fixed_heads`, at the Reshape of that place."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        split = [one for one in edit.graph.node if one.op_type == "Reshape"][place]
        shape = numpy_helper.to_array(attribute(producer(model.graph, split.input[1]), "value")).tolist()
        split.input[1] = edit.op("Identity", np.array([batch, *shape[1:]], INT))
        edit.finish()

    return fault


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
