"""Mutations of packed patches, and of positions by frame, row and column."""

import numpy as np
from onnx import helper

from helpers.graph_edits import (
    blocks,
    constant_value,
    drop,
    function,
    node,
    replace_input,
    set_constant,
    through,
)


def columns_for_rows(model):
    """A patch's column as its row, and its row as its column."""
    stacked = node(function(model, "patch_places"), "Concat")
    stacked.input[:] = reversed(stacked.input)


def patches_line_by_line(model):
    """Rows and columns as if an image's patches were in no squares."""
    body = function(model, "patch_places")
    side = [one for one in body.node if one.op_type == "Constant" and constant_value(one) == 2][-1]
    set_constant(side, 1)


def patches_of_the_first_image(model):
    """Rows and columns that go on from one image to the next."""
    body = function(model, "patch_places")
    first = node(body, "Sub")  # the number of each image's first patch
    through(body, first.output[0], "Mul", 0)


def images_attend_to_each_other(model):
    """Patches that attend to those of all images."""
    body = function(model, "window_mask")
    through(body, body.input[2], "Mul", 0)


def windows_ignored(model):
    """Layers with windows that attend to all of an image."""
    narrow, wide = (one for one in model.graph.node if one.op_type.startswith("window_mask"))
    for reader in model.graph.node:
        if narrow.output[0] in reader.input:
            replace_input(reader, narrow.output[0], wide.output[0])


def windows_everywhere(model):
    """A layer of full attention with windows."""
    narrow, wide = (one for one in model.graph.node if one.op_type.startswith("window_mask"))
    for reader in model.graph.node:
        if wide.output[0] in reader.input:
            replace_input(reader, wide.output[0], narrow.output[0])


def larger_windows(model):
    """Windows of one more square a side."""
    body = function(model, "window_mask")
    size = next(one for one in body.node if one.op_type == "Constant" and constant_value(one) == 4)
    set_constant(size, 6)


def neighbours_apart(model):
    """Merged with patches that are not their neighbours."""
    body = function(model, "connector")
    joined = node(body, "Reshape")
    index = list(body.node).index(joined)
    vectors, apart, turned = joined.input[0], "apart.changed", "turned.changed"
    joined.input[0] = turned
    body.node.insert(index, helper.make_node("Transpose", [apart], [turned], perm=[0, 2, 1, 3]))
    body.node.insert(index, helper.make_node("Reshape", [vectors, "four.changed"], [apart]))
    body.node.insert(index, helper.make_node("Constant", [], ["four.changed"], value_ints=[0, 4, -1, 32]))


def _axes(model, change):
    """Replace the axis of each rotary frequency: frames (0), rows (1) and columns (2) by `change`."""
    body = function(model, "rotation")
    constants = (one for one in body.node if one.op_type == "Constant")
    axes = next(one for one in constants if np.unique(constant_value(one)).tolist() == [0, 1, 2])
    set_constant(axes, [change[axis] for axis in constant_value(axes)])


def flat_images(model):
    """All vectors of an image at one position."""
    _axes(model, [0, 0, 0])


def columns_for_rows_of_vectors(model):
    """Frequencies of columns that turn by rows, and those of rows by columns."""
    _axes(model, [0, 2, 1])


def frames_last(model):
    """Frequencies in the order of rows, columns and frames."""
    _axes(model, [1, 2, 0])


def positions_of_slots(model):
    """Positions that count the vectors of an image as a text's."""
    slots = next(one for one in model.graph.node if one.op_type == "positions").output[0]
    turned = next(one for one in model.graph.node if one.op_type == "rotation")
    index = list(model.graph.node).index(turned)
    added = [
        helper.make_node("Sub", [turned.input[0], turned.input[0]], ["none.changed"]),
        helper.make_node("Add", ["none.changed", slots], ["slots.changed"]),
    ]
    turned.input[0] = "slots.changed"
    for one in reversed(added):
        model.graph.node.insert(index, one)


def _deep_calls(model):
    return [one for one in model.graph.node if one.name.startswith("behind")]


def deep_features_exchanged(model):
    """Vectors of the image encoder's layers in the reverse order."""
    first, second = _deep_calls(model)
    first.input[2], second.input[2] = second.input[2], first.input[2]


def deep_features_ignored(model):
    """No DeepStack features after the first layer."""
    call = _deep_calls(model)[0]
    through(model.graph, call.output[0], "Mul", 0.0)


def another_layer_deep(model):
    """The vectors of a layer above the one that reaches the decoder."""
    first, second, *_ = layers = blocks(model)
    connector = next(one for one in model.graph.node if first.output[0] in one.input and one not in layers)
    replace_input(connector, first.output[0], second.output[0])


def positions_of_corners(model):
    """Learned positions of the nearest place above and left, not interpolated."""
    body = function(model, "grid_positions")
    share = next(
        one for one in body.node if one.op_type == "Sub" and node(body, "Floor").output[0] in one.input
    )
    through(body, share.output[0], "Mul", 0.0)


def positions_of_one_size(model):
    """Learned positions by a patch's row and column, whatever the image's size."""
    body = function(model, "grid_positions")
    through(body, node(body, "Div").output[0], "Floor")


def without_learned_positions(model):
    """Patches without learned positions."""
    body = function(model, "packed_embedding")
    added = node(body, "Add", -1)
    drop(added)
