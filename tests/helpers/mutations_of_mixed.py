"""Mutations of LW-DETR and RF-DETR: of windows, the projector, first boxes and how boxes change."""

from onnx import helper

from helpers.graph_edits import (
    attribute,
    become,
    constant_value,
    drop,
    function,
    node,
    producer,
    set_attribute,
    set_constant,
    starting,
    through,
)


def _maps(model):
    """The function that makes the levels of an image."""
    return starting(model, "windowed_maps_embedding")


def rows_of_windows(model):
    """Windows that are cut from consecutive places, not from squares."""
    drop(node(starting(model, "cut"), "Transpose"))


def layers_within_windows_alone(model):
    """Layers that never read the whole image."""
    body = _maps(model)
    shaped = next(one for one in body.node if one.name.startswith("image."))
    drop(shaped)


def every_layer_over_the_image(model):
    """A first layer that reads all windows."""
    body = _maps(model)
    image = next(one for one in body.node if one.name.startswith("image."))
    windows = next(one for one in body.node if one.name.startswith("windows."))
    layer = next(one for one in body.node if one.op_type.startswith("encoder_block"))
    for value, shape in ((layer.input[0], image.input[1]), (layer.output[0], windows.input[1])):
        _reshaped(body, value, shape)


def _reshaped(body, value, shape):
    """Give every reader of a value the value in another shape."""
    readers = [one for one in body.node if value in one.input and one.op_type != "Shape"]
    place = list(body.node).index(readers[0])
    for reader in readers:
        reader.input[:] = [f"{value}_reshaped" if name == value else name for name in reader.input]
    body.node.insert(place, helper.make_node("Reshape", [value, shape], [f"{value}_reshaped"]))


def exchanged_maps(model):
    """Maps of the layers that are read, the last one first."""
    level = next(one for one in _maps(model).node if one.op_type.startswith("projector_level"))
    indices = [place for place, name in enumerate(level.input) if name.startswith("map")]
    level.input[indices[0]], level.input[indices[1]] = level.input[indices[1]], level.input[indices[0]]


def first_half_through_pairs(model):
    """Pairs of convolutions that begin with the first half."""
    body = starting(model, "projector_level")
    halves = node(body, "Split").output
    reader = next(one for one in body.node if halves[1] in one.input and one.op_type != "Concat")
    reader.input[list(reader.input).index(halves[1])] = halves[0]


def unnormalised_level(model):
    """A level without the layer norm behind it."""
    body = starting(model, "projector_level")
    turned = [one for one in body.node if one.op_type == "Transpose"][-1]
    source = producer(body, turned.input[0])
    drop(source)


def smallest_scores(model):
    """The places that score lowest."""
    set_attribute(node(starting(model, "likeliest_boxes"), "TopK", 1), "largest", 0)


def least_label(model):
    """Places by the score of their least likely label."""
    set_attribute(node(starting(model, "likeliest_boxes"), "TopK"), "largest", 0)


def places_of_padding(model):
    """Places of padding, and at the edges, that are chosen as all others are."""
    body = starting(model, "likeliest_boxes")
    for one in [one for one in body.node if one.op_type == "Where"]:
        drop(one, 1)


def exchanged_ranks(model):
    """Boxes in the order of scores, but the first after the second."""
    body = starting(model, "likeliest_boxes")
    best = node(body, "TopK", 1).output[1]
    through(body, best, "Gather", [1, 0, *range(2, 7)], axis=1)


def first_boxes_of_other_levels(model):
    """First boxes with the sides of those of the next coarser level."""
    for place in [one for one in model.graph.node if one.name.startswith("anchors.")]:
        side = producer(model.graph, place.input[2])
        set_constant(side, 2 * constant_value(side))


def unchanged_first_boxes(model):
    """Boxes of places that learned queries do not move."""
    body = function(model, "learned_changes")
    changed = next(one for one in body.node if one.op_type == "scaled")
    drop(changed, 1)


def added_sides(model):
    """Sides that changes are added to, not factors of."""
    body = function(model, "scaled")
    grown = next(
        one for one in body.node if one.op_type == "Mul" and producer(body, one.input[0]).op_type == "Exp"
    )
    become(grown, "Add", *grown.input)


def moves_of_the_image(model):
    """Moves that are shares of the image, not of a box's sides."""
    body = function(model, "scaled")
    drop(
        next(
            one
            for one in body.node
            if one.op_type == "Mul" and producer(body, one.input[0]).op_type == "Slice"
        )
    )


def without_last_norm(model):
    """Queries without the norm behind their layers."""
    head = next(one for one in model.graph.node if one.op_type.startswith("refined_boxes_head"))
    normed = producer(model.graph, head.input[0])
    drop(normed)


def positions_of_rows_last(model):
    """Positions of boxes whose columns come before their rows."""
    body = starting(model, "level_positions")
    order = next(
        one
        for one in body.node
        if one.op_type == "Constant"
        and attribute(one, "value") is not None
        and constant_value(one) == [1, 0, 2, 3]
    )
    set_constant(order, [0, 1, 2, 3])


def windows_without_token(model):
    """A token of zeros in every window."""
    copies = node(_maps(model), "Expand")
    through(_maps(model), copies.output[0], "Mul", 0.0)


def squares_of_windows(model):
    """Windows with as many rows and columns as the image's, not as many columns and rows."""
    body = starting(model, "cut")
    for one in [one for one in body.node if one.op_type == "Gather"][:2]:
        index = producer(body, one.input[1])
        set_constant(index, [1 - constant_value(index)[0]])


def plain_positions(model):
    """Positions that are interpolated without antialias, by the kernel of Keys 1981 with a = -0.75."""
    body = starting(model, "antialiased")
    for one in body.node:
        if one.op_type == "Constant" and attribute(one, "value") is not None:
            value = constant_value(one)
            if value in (1.5, 2.5, -0.5, 4.0):
                set_constant(one, {1.5: 1.25, 2.5: 2.25, -0.5: -0.75, 4.0: 6.0}[value])


def places_without_residual(model):
    """A map that blocks make anew."""
    drop(node(starting(model, "places_block"), "Add"))


def exchanged_blocks(model):
    """Blocks over a map with the weights of one another."""
    body = function(model, "instance_masks_head")
    first, second = [one for one in body.node if one.op_type.startswith("places_block")]
    for place in range(1, len(first.input)):
        first.input[place], second.input[place] = second.input[place], first.input[place]


def vectors_without_residual(model):
    """Vectors of masks that a network makes anew."""
    body = function(model, "instance_masks_head")
    network = next(one for one in body.node if one.op_type.startswith("feed_forward"))
    added = next(one for one in body.node if one.op_type == "Add" and network.output[0] in one.input)
    drop(added, list(added.input).index(network.output[0]))


def masks_without_addend(model):
    """Masks without the learned number."""
    drop([one for one in function(model, "instance_masks_head").node if one.op_type == "Add"][-1])


def masks_of_corners(model):
    """A map whose corners stay where they are when it is interpolated."""
    set_attribute(
        node(function(model, "bilinear"), "Resize"), "coordinate_transformation_mode", "align_corners"
    )
