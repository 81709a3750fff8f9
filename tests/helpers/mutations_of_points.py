"""Mutations of queries that read points of maps: their centres, halves, sides, levels and ranks."""

from helpers.graph_edits import (
    attribute,
    constant,
    constant_value,
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


def counted_at_edges(model):
    """Positions of rows and columns that are counted at their lower edges."""
    body = starting(model, "sine_positions")
    for one in [one for one in body.node if one.op_type == "Sub"]:
        drop(one)


def exchanged_levels(model):
    """Vectors of levels, of which the first two are exchanged."""
    for level, other in enumerate((1, 0)):
        number = named(model, f"placed.{level}").input[2]
        set_constant(producer(model.graph, number), other)


def exchanged_halves(model):
    """Learned vectors whose positions are the queries."""
    call = next(one for one in model.graph.node if one.op_type.startswith("learned_queries"))
    call.output[0], call.output[1] = call.output[1], call.output[0]


def larger_sides(model):
    """Points that are boxes with sides of more than a half."""
    body = starting(model, "learned_queries")
    expanded = node(body, "Expand")
    cast = producer(body, expanded.input[0])
    set_constant(producer(body, cast.input[0]), 0.6)


def queries_of_whole_maps(model):
    """Points of queries that take padding for a part of the image."""
    call = named(model, "near.0")
    shares = producer(model.graph, call.input[1])
    through(model.graph, shares.output[0], "Max", 1.0)


def worst_places(model):
    """The places that score lowest."""
    set_attribute(node(starting(model, "proposed_queries"), "TopK"), "largest", 0)


def exchanged_ranks(model):
    """Queries in the order of scores, but the first after the second."""
    body = starting(model, "proposed_queries")
    best, count = node(body, "TopK").output[1], 7
    through(body, best, "Gather", [1, 0, *range(2, count)], axis=1)


def unnormed_queries(model):
    """Queries of boxes without the norm."""
    body = starting(model, "proposed_queries")
    last = [one for one in body.node if "norm" in one.op_type][-1]
    drop(last)
    last.domain = ""


def first_boxes_of_one_size(model):
    """First boxes of all maps with the side of the coarsest map's."""
    sides = [one for one in model.graph.node if one.op_type == "place_boxes"]
    last = producer(model.graph, sides[-1].input[2])
    for call in sides:
        side = producer(model.graph, call.input[2])
        set_constant(side, constant_value(last))


def offsets_from_corners(model):
    """Offsets from a box's lower right corner, as if it were the centre's."""
    every = [one for one in model.functions if one.name.startswith("deformable_attention")]
    body = next(one for one in every if not any(part.op_type == "Gather" for part in one.node))
    centre, extent = [one for one in body.node if one.op_type == "Slice"][:2]
    moved = next(one for one in body.node if one.op_type == "Add" and centre.output[0] in one.input)
    moved.input[list(moved.input).index(centre.output[0])] = extent.output[0]


def scale_of_contents(model):
    """Scores of contents and positions with the scale of contents alone."""
    body = starting(model, "conditional_attention")
    mixed = next(one for one in body.node if one.op_type == "own_mix")
    set_attribute(mixed, "scale", attribute(mixed, "scale") * 2**0.5)


def sines_without_factors(model):
    """Sines of points that queries do not scale."""
    scaled = node(starting(model, "scaled_sines"), "Mul")
    drop(scaled)


def columns_first(model):
    """Sines of points with columns before rows."""
    set_constant(constant(starting(model, "point_sines"), [1, 0]), [0, 1])


def contents_without_positions(model):
    """Contents of the first layer's attention to the map without positions."""
    every = [one for one in model.functions if one.name.startswith("conditional_attention")]
    body = next(one for one in every if any(part.op_type == "Add" for part in one.node))
    for added in [one for one in body.node if one.op_type == "Add"]:
        drop(added)


def keys_without_positions(model):
    """Attention of queries to one another whose keys have no positions."""
    added = node(starting(model, "mutual_attention"), "Add", 1)
    drop(added)


def boxes_at_corners(model):
    """First boxes whose centres are the corners of places."""
    body = function(model, "place_points")
    for added in [one for one in body.node if one.op_type == "Add"]:
        drop(added)
