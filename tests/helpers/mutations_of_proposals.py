"""Mutations of queries that begin as places of an image: boxes, offsets, sampling, ranks, pyramid."""

from helpers.graph_edits import (
    drop,
    function,
    named,
    node,
    producer,
    set_attribute,
    set_constant,
    starting,
    through,
)


def _sampled(model, **attributes):
    """Sampling with other attributes, in every level."""
    samples = [one for one in starting(model, "deformable_attention").node if one.op_type == "GridSample"]
    for one in samples:
        for name, value in attributes.items():
            set_attribute(one, name, value)


def aligned_corners(model):
    """Maps whose corners are the centres of the outermost places."""
    _sampled(model, align_corners=1)


def repeated_borders(model):
    """Maps that go on beyond their edges."""
    _sampled(model, padding_mode="border")


def nearest_places(model):
    """The nearest place, not one between four."""
    _sampled(model, mode="nearest")


def offsets_from_corners(model):
    """Offsets from a box's lower right corner, as if it were the centre's."""
    body = starting(model, "deformable_attention")
    centre, extent = [one for one in body.node if one.op_type == "Slice"][:2]
    moved = next(one for one in body.node if one.op_type == "Add" and centre.output[0] in one.input)
    moved.input[list(moved.input).index(centre.output[0])] = extent.output[0]


def undivided_offsets(model):
    """Offsets that are not shared among points."""
    divided = node(starting(model, "deformable_attention"), "Div")
    drop(divided)


def shares_of_each_head(model):
    """Shares that sum to 1 over heads, not over points."""
    set_attribute(node(starting(model, "deformable_attention"), "Softmax"), "axis", 2)


def boxes_without_reference(model):
    """Boxes that a layer makes anew, not changes of those before."""
    added = node(function(model, "refined"), "Add")
    drop(added)


def worst_places(model):
    """The places that score lowest."""
    set_attribute(node(starting(model, "proposals"), "TopK", 1), "largest", 0)


def exchanged_ranks(model):
    """Queries in the order of scores, but the first after the second."""
    body = starting(model, "proposals")
    taken = node(body, "TopK", 1)
    best, count = taken.output[1], 7
    through(body, best, "Gather", [1, 0, *range(2, count)], axis=1)


def first_boxes_at_corners(model):
    """First boxes whose centres are the corners of places."""
    body = function(model, "first_boxes")
    down, across = [one for one in body.node if one.op_type == "Add"][:2]
    for added in (down, across):
        drop(added)


def first_boxes_of_one_size(model):
    """First boxes of all maps with the side of the finest map's."""
    first, second = named(model, "first_boxes.0"), named(model, "first_boxes.1")
    second.input[1] = first.input[1]


def rows_for_columns(model):
    """First boxes whose centres are mirrored along the diagonal."""
    joined = [one for one in function(model, "first_boxes").node if one.op_type == "Concat"][-1]
    joined.input[0], joined.input[1] = joined.input[1], joined.input[0]


def positions_of_columns_first(model):
    """Positions of the coarsest map with columns before rows."""
    body = starting(model, "map_positions")
    joined = [one for one in body.node if one.op_type == "Concat"][-1]
    joined.input[0], joined.input[1] = joined.input[1], joined.input[0]


def cross_attention_without_positions(model):
    """Attention to the maps whose offsets do not know the box."""
    body = starting(model, "proposal_layer")
    read = next(one for one in body.node if one.op_type.startswith("deformable_attention"))
    query = producer(body, read.input[0])
    read.input[0] = query.input[0]


def largest_residuals(model):
    """Residuals halved by the largest of four places, not by their mean."""
    halved = [one for one in model.functions if any(part.op_type == "AveragePool" for part in one.node)]
    for body in halved:
        node(body, "AveragePool").op_type = "MaxPool"


def drop_narrow_convolution(model):
    """Pairs of convolutions without the one of 1 by 1."""
    added = node(starting(model, "convolution_pair"), "Add")
    drop(added)


def smooth_doubling(model):
    """Maps doubled by interpolation, not by repetition."""
    resized = node(function(model, "doubled"), "Resize")
    set_attribute(resized, "mode", "linear")
    set_attribute(resized, "coordinate_transformation_mode", "half_pixel")


def twice_as_long_offsets(model):
    """Offsets of the whole box's side where they are of a share of it."""
    body = starting(model, "deformable_attention")
    scaled = [one for one in body.node if one.op_type == "Mul"][1]
    cast = producer(body, scaled.input[1])
    set_constant(producer(body, cast.input[0]), 1.5)
