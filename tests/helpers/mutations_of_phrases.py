"""Mutations of objects that phrases describe: phrases, fusion, masks, levels, references, scores."""

from helpers.graph_edits import (
    become,
    constant,
    drop,
    function,
    named,
    node,
    producer,
    set_attribute,
    set_constant,
    starting,
)


def _points(model):
    """The function of attention to points, which has sizes of maps, not extents of boxes."""
    every = [one for one in model.functions if one.name.startswith("deformable_attention")]
    return next(one for one in every if any(part.op_type == "Gather" for part in one.node))


def phrases_that_see_later_ones(model):
    """Tokens that see those of every later phrase too."""
    node(starting(model, "phrases"), "Equal", 1).op_type = "LessOrEqual"


def positions_of_the_text(model):
    """Positions that count from the first token of the text, not of the phrase."""
    body = starting(model, "phrases")
    positions = producer(body, body.output[1])
    order = next(one for one in body.node if one.op_type == "Range")
    positions.input[1] = order.output[0]


def last_phrase_with_padding(model):
    """A phrase that ends with the last token as one of those that see their tokens."""
    body = starting(model, "phrases")
    closed = next(one for one in body.node if one.op_type == "And" and _reads(body, one, "Less"))
    drop(closed)


def _reads(body, of, kind):
    """Tell whether a node reads the output of such an operator."""
    return any(one.op_type == kind and one.output[0] in of.input for one in body.node)


def fusion_with_padding(model):
    """Places and tokens that read the padding of one another."""
    body = function(model, "seen_softmax")
    masked = node(body, "Where")
    drop(masked, 1)


def residuals_before_norms(model):
    """Fusion that adds to what its norms read."""
    body = starting(model, "fusion")
    added = node(body, "Add")
    added.input[0] = body.input[0]


def values_of_padding(model):
    """Places of padding that have values."""
    masked = node(_points(model), "Where")
    drop(masked, 1)


def offsets_of_the_image(model):
    """Offsets that are shares of the image, not places of a map."""
    divided = node(_points(model), "Div")
    drop(divided)


def offsets_of_rows_first(model):
    """Offsets in columns divided by the number of rows."""
    body = _points(model)
    for gathered in [one for one in body.node if one.op_type == "Gather"]:
        order = producer(body, gathered.input[1])
        set_constant(order, [0, 1])


def exchanged_levels(model):
    """Vectors of levels, of which the first two are exchanged."""
    first, second = named(model, "placed"), named(model, "placed_2")
    first.input[2], second.input[2] = second.input[2], first.input[2]


def references_of_whole_maps(model):
    """References that take padding for a part of the image."""
    shares = [one for one in function(model, "place_points").node if one.op_type == "Div"][-1]
    become(shares, "Div", shares.input[0], shares.input[0])


def first_boxes_of_one_size(model):
    """First boxes of all maps with the side of the finest map's."""
    first, second = named(model, "anchors.0"), named(model, "anchors.1")
    second.input[2] = first.input[2]


def worst_places(model):
    """The places that score lowest."""
    set_attribute(node(starting(model, "first_boxes"), "TopK", 1), "largest", 0)


def columns_first(model):
    """Positions of queries with columns before rows."""
    set_constant(constant(starting(model, "level_positions"), [1, 0, 2, 3]), [0, 1, 2, 3])


def boxes_without_reference(model):
    """Boxes that a layer makes anew, not changes of those before."""
    added = node(function(model, "moved"), "Add")
    drop(added)


def queries_without_text(model):
    """Queries that do not read the text."""
    body = starting(model, "object_layer")
    added = [one for one in body.node if one.op_type == "Add"][3]
    drop(added)


def unnormed_boxes(model):
    """Last boxes of queries before the last norm."""
    moves = [one for one in model.graph.node if one.op_type.startswith("box_move")]
    normed = producer(model.graph, moves[-1].input[0])
    moves[-1].input[0] = normed.input[0]


def scores_of_padding(model):
    """Scores of tokens that are padding."""
    masked = node(function(model, "token_products"), "Where")
    drop(masked, 1)


def other_turns(model):
    """Positions of places as DETR has them, whose sines are slower."""
    body = starting(model, "sine_positions")
    periods = next(
        one
        for one in body.node
        if one.op_type == "Constant" and len(one.attribute[0].t.dims) == 1 and one.attribute[0].t.dims[0] > 4
    )
    size = periods.attribute[0].t.dims[0]
    set_constant(periods, [10000 ** (step / size) for step in range(size)])
