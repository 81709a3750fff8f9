"""Mutations of learned boxes that read an image: sines, sides, slopes, patterns."""

from helpers.graph_edits import constant, drop, function, node, producer, set_constant, starting


def rectified_networks(model):
    """Networks with ReLU."""
    of = node(function(model, "prelu"), "PRelu")
    of.op_type = "Relu"
    del of.input[1:]


def unscaled_places(model):
    """Positions of the map that its vectors do not scale."""
    for call in [one for one in model.graph.node if one.op_type.startswith("query_layer")]:
        call.input[1] = producer(model.graph, call.input[1]).input[1]


def columns_first(model):
    """Sines of boxes with columns before rows."""
    set_constant(constant(starting(model, "box_sines"), [1, 0, 2, 3]), [0, 1, 2, 3])


def exchanged_sides(model):
    """Sines of rows multiplied by shares of widths, and those of columns by shares of heights."""
    shares = node(starting(model, "modulated_sines"), "Split", 1)
    shares.output[0], shares.output[1] = shares.output[1], shares.output[0]


def undivided_sides(model):
    """Sines multiplied by sides, not by shares of a box's."""
    drop(node(starting(model, "modulated_sines"), "Div"))


def unmodulated_sines(model):
    """Sines that sides do not change."""
    for product in [one for one in starting(model, "modulated_sines").node if one.op_type == "Mul"]:
        drop(product)


def scaled_in_the_first_layer(model):
    """Sines of centres that no layer scales."""
    scaled = [one for one in model.graph.node if one.op_type.startswith("modulated_sines")]
    sines = {one.output[0] for one in model.graph.node if one.op_type.startswith("box_sines")}
    plain = next(name for one in scaled for name in one.input if name in sines)
    for one in scaled[1:]:
        one.input[1] = plain


def first_boxes_alone(model):
    """Layers that all read the first boxes."""
    changes = [one for one in model.graph.node if one.op_type.startswith("box_change")]
    for change in changes:
        drop(change, 1)


def boxes_of_ranks(model):
    """Patterns that follow one another for each box."""
    body = function(model, "anchor_queries")
    swap = node(body, "Unsqueeze")
    set_constant(next(one for one in body.node if swap.input[1] in one.output), [0])
    spread = node(body, "Expand")
    shape = next(one for one in body.node if spread.input[1] in one.output)
    set_constant(shape, [7, 2, 16])
