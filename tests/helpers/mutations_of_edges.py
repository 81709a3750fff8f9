"""Mutations of D-FINE: of its distributions of edges, its backbone and its pyramid."""

from helpers.graph_edits import (
    drop,
    function,
    node,
    producer,
    set_attribute,
    set_constant,
    starting,
    swap_halves,
)


def _constant_of(body, of, place):
    """The constant that a node reads, cast or not."""
    source = producer(body, of.input[place])
    return producer(body, source.input[0]) if source.op_type == "CastLike" else source


def without_addend(model):
    """ReLU with a factor behind it, but no addend."""
    drop(node(function(model, "affine"), "Add"))


def repeated_edge_of_the_stem(model):
    """A stem that repeats its last row and column, where zeros follow."""
    for padded in [one for one in starting(model, "hgnet_stem").node if one.op_type == "Pad"]:
        set_attribute(padded, "mode", "edge")


def blocks_without_residual(model):
    """A second block of a stage that is not added to what it reads."""
    blocks = [one for one in model.functions if one.name.startswith("aggregation_block")]
    drop(next(part for block in blocks for part in block.node if part.op_type == "Add"))


def input_last(model):
    """A block whose own input stands last among its maps."""
    joined = node(starting(model, "aggregation_block"), "Concat")
    names = list(joined.input)
    joined.input[:] = [*names[1:], names[0]]


def first_half_through(model):
    """Stages of the pyramid that read the first half of the projection."""
    swap_halves(function(model, "aggregation"))


def offsets_without_factors(model):
    """Offsets that are not multiplied by the factors of their points."""
    drop(node(starting(model, "deformable_attention"), "Mul"))


def longer_offsets(model):
    """Offsets of twice the share of a box's side."""
    body = starting(model, "deformable_attention")
    set_constant(_constant_of(body, node(body, "Mul", 2), 1), 1.5)


def exchanged_gates(model):
    """Gates of what queries are for what they read, and the other way round."""
    swap_halves(starting(model, "gated_residual"))


def unclipped_positions(model):
    """Positions of any size."""
    for one in [one for one in model.graph.node if one.op_type.startswith("clipped")]:
        drop(one)


def even_distances(model):
    """Distances that grow by equal steps."""
    body = starting(model, "edge_distances")
    set_constant(_constant_of(body, node(body, "Pow", 1), 1), [1.0, 0.5, 0.25, 0.0, 0.25, 0.5, 1.0])


def outermost_as_near(model):
    """Outermost distances that are not doubled."""
    body = starting(model, "edge_distances")
    twice = node(body, "Mul", 2)
    set_constant(producer(body, twice.input[1]), 1.0)


def edges_from_corners(model):
    """Edges that move from the whole side of the first box, not from half of it."""
    body = starting(model, "edge_boxes")
    half = node(body, "Mul")
    set_constant(_constant_of(body, half, 0), 1.0)


def edges_of_one_layer(model):
    """Scores of edges that are not added to those of the layer before."""
    drop(node(function(model, "edge_scores_2"), "Add", 1))


def scores_without_earlier_queries(model):
    """Scores of edges that read the queries of one layer alone."""
    drop(node(function(model, "edge_scores_2"), "Add"))


def edges_of_the_last_box(model):
    """Edges that move from the box of the layer before, not from the first."""
    first, second = [one for one in model.graph.node if one.op_type.startswith("edge_boxes")][:2]
    second.input[0] = first.output[0]


def least_likely_distances(model):
    """Quality of the least likely distances."""
    set_attribute(node(starting(model, "quality_boxes_head"), "TopK"), "largest", 0)


def quality_of_sums(model):
    """Quality of sums in the place of means."""
    drop(node(starting(model, "quality_boxes_head"), "Div"))


def without_quality(model):
    """Scores of labels alone."""
    added = [one for one in starting(model, "quality_boxes_head").node if one.op_type == "Add"][-1]
    drop(added)
