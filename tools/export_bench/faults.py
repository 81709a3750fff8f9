"""Faults of what a graph reads: masks, positions, token types, the causal edge, windows."""

from collections.abc import Callable

import numpy as np
import onnx

from export_bench.edits import Edit

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
        order = counted_positions(edit)
        early = edit.op("Cast", edit.op("Less", order, np.array(count)), to=onnx.TensorProto.INT64)
        edit.replace(name, edit.op("Mul", name, early))

    return fault


def past_length(edit: Edit) -> str:
    """The number of past tokens, of shape (1)."""
    name = next(one.name for one in edit.graph.input if one.name.startswith("past_key_values.0."))
    return edit.op("Shape", name, start=2, end=3)


def counted_positions(edit: Edit) -> str:
    """Positions 0, 1, … (B,S) of the new tokens, whatever precedes them."""
    counts = edit.op("Add", edit.op("Mul", "input_ids", np.array(0)), np.array(1))
    return edit.op("Sub", edit.op("CumSum", counts, np.array(1)), np.array(1))


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


def later_keys(count: int) -> Fault:
    """A causal mask whose edge lies that number of keys later, or earlier."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        edge = next(one for one in edit.graph.node if one.op_type == "LessOrEqual")
        edge.input[1] = edit.op("Add", edge.input[1], np.array(count))
        edit.finish()

    return fault


def chunk_without_edge(model: onnx.ModelProto) -> None:
    """No causal mask between the new tokens of a pass behind a past."""
    edit = Edit(model)
    edge = next(one for one in edit.graph.node if one.op_type == "LessOrEqual")
    later = edit.op("Mul", with_past(edit), edit.op("Shape", "input_ids", start=1, end=2))
    edge.input[1] = edit.op("Add", edge.input[1], later)
    edit.finish()


def edge_without_past(model: onnx.ModelProto) -> None:
    """A causal mask aligned to the first key, as if there were no past."""
    edit = Edit(model)
    edge = next(one for one in edit.graph.node if one.op_type == "LessOrEqual")
    edge.input[1] = edit.op("Sub", edge.input[1], past_length(edit))
    edit.finish()


def of_first_row(name: str) -> Fault:
    """An input's first row for all rows of the batch."""

    def fault(model: onnx.ModelProto) -> None:
        edit = Edit(model)
        first = edit.op("Slice", name, np.array([0]), np.array([1]), np.array([0]))
        edit.replace(name, edit.op("Add", edit.op("Mul", name, np.array(0)), first))

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


def mask_forgotten_in_branch(model: onnx.ModelProto) -> None:
    """A mask of the encoder that counts as ones where use_cache_branch is true."""
    edit = Edit(model)
    branch = edit.op("Cast", "use_cache_branch", to=onnx.TensorProto.INT64)
    edit.replace("encoder_attention_mask", edit.op("Max", "encoder_attention_mask", branch))
