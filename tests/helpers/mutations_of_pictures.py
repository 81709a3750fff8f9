"""Mutations of images among tokens: a connector's vectors, their order, and the tokens that they replace."""

from onnx import helper

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
    through,
)


def _skip(model, first, end, step=1):
    """Let the connector read the vectors from `first` to `end`."""
    body = function(model, "connector")
    cut = node(body, "Slice")
    names = [f"{cut.name}.{part}" for part in ("first", "end", "axis", "step")]
    place = list(body.node).index(cut)
    become(cut, "Slice", cut.input[0], *names)
    for name, number in zip(names, (first, end, 1, step), strict=True):
        body.node.insert(place, helper.make_node("Constant", [], [name], value_ints=[number]))


def last_vector_skipped(model):
    """The class token among an image's vectors, and not the last patch."""
    _skip(model, 0, -1)


def patches_in_reverse(model):
    """An image's vectors from its last patch to its first."""
    _skip(model, -1, 0, -1)


def linear_connector(model):
    """A connector without the activation between its layers."""
    body = function(model, "connector")
    wide = next(one for one in body.node if one.name == "wide")
    drop(wide)


def one_layer_earlier(model):
    """The vectors of a layer before that of vision_feature_layer."""
    connector = named(model, "connector")
    block = producer(model.graph, connector.input[0])
    connector.input[0] = block.input[0]


def images_exchanged(model):
    """The vectors of the last image for the first."""
    through(model.graph, model.graph.input[0].name, "Slice", [-1], [-(2**31)], [0], [-1])


def features_one_place_later(model):
    """Each token's vector for the token before it."""
    set_constant(constant(function(model, "spliced"), 1), 0)


def features_in_reverse(model):
    """The vectors of all images from the last to the first."""
    through(
        function(model, "spliced"), function(model, "spliced").input[2], "Slice", [-1], [-(2**31)], [0], [-1]
    )


def each_row_from_the_first(model):
    """Rows that each begin with the first image's vectors."""
    body = function(model, "spliced")
    become(node(body, "Reshape"), "Identity", body.input[1])
    set_constant(constant(body, 0), 1)


def features_added(model):
    """Vectors of images added to those of their tokens."""
    body = function(model, "spliced")
    last = node(body, "Where", -1)
    place = list(body.node).index(last)
    both = f"{last.input[1]}.added"
    body.node.insert(place, helper.make_node("Add", [last.input[1], last.input[2]], [both]))
    node(body, "Where", -1).input[1] = both


def another_image_token(model):
    """Vectors in the places of the token before `image_token_id`."""
    set_constant(constant(function(model, "spliced"), 310), 309)


def zeros_without_images(model):
    """Zeros for a token of images where there is no image."""
    taken = node(function(model, "spliced"), "And")
    drop(taken)


def columns_for_rows_of_squares(model):
    """Neighbours of a square column by column."""
    set_attribute(node(function(model, "connector"), "Transpose"), "perm", [0, 1, 3, 4, 2, 5])


def causal_images(model):
    """Tokens of an image that attend to earlier ones alone."""
    set_constant(constant(function(model, "image_groups"), 310), 309)


def images_of_a_row_as_one(model):
    """Tokens of an image that attend to other images too."""
    body = function(model, "image_groups")
    through(body, node(body, "CumSum").output[0], "Mul", 0)


def unnormed_squares(model):
    """Means of squares that are projected without a norm."""
    body = function(model, "connector")
    norm = next(one for one in body.node if one.op_type.startswith("norm"))
    drop(norm)


def causal_prefix(model):
    """Tokens of a prompt that attend to earlier ones alone."""
    set_constant(constant(function(model, "prefix_groups"), 0), -1)


def suffix_both_ways(model):
    """New tokens that attend to each other behind the prompt too."""
    set_constant(constant(function(model, "prefix_groups"), -1), 0)


def last_of_prefix_causal(model):
    """A prompt whose last token is no part of its prefix."""
    body = function(model, "prefix_groups")
    through(body, body.input[1], "Sub", 1)


def features_of_another_scale(model):
    """Vectors of images divided by the square root of their width, as the first releases had them."""
    body = function(model, "spliced")
    through(body, body.input[2], "Mul", 48**-0.5)


def window_limits_prefix(model):
    """A sliding window that also applies within the prefix."""
    for body in model.functions:
        if body.name.startswith("grouped_c") and any(one.op_type == "Less" for one in body.node):
            either, near = node(body, "Or"), node(body, "Less").output[0]
            place, seen = list(body.node).index(either), either.output[0]
            either.output[0] = f"{seen}.everywhere"
            body.node.insert(place + 1, helper.make_node("And", [either.output[0], near], [seen]))


def rows_without_ends(model):
    """Rows of a mosaic that end in zeros in place of the learned vector."""
    body = function(model, "mosaic")
    through(body, body.input[-1], "Mul", 0.0)


def padding_in_the_map(model):
    """The first rows and columns of a canvas, its padding included."""
    body = function(model, "mosaic")
    starts = node(body, "Div")
    become(starts, "Sub", starts.input[0], starts.input[0])


def tiles_column_by_column(model):
    """Tiles from top to bottom, then the next column."""
    body = function(model, "tiles_as_map")
    shape = node(body, "Concat")
    shape.input[0], shape.input[1] = shape.input[1], shape.input[0]
    set_attribute(node(body, "Transpose"), "perm", [1, 2, 0, 3, 4])


def whole_image_last(model):
    """The vectors of the whole image behind those of its tiles."""
    last = node(function(model, "mosaic"), "Concat", -1)
    last.input[0], last.input[1] = last.input[1], last.input[0]


def corners_aligned(model):
    """A reduced map whose first row stays where it is."""
    body = function(model, "reduced")
    set_constant(constant(body, 0.5), 0.0)


def map_of_any_size(model):
    """A large map that is cut, not reduced."""
    body = function(model, "reduced")
    scale = node(body, "Div")
    become(scale, "Div", scale.input[0], scale.input[0])
