"""Mutations of DaViT: channels, windows, convolutions, and the vectors of an image."""

from helpers.graph_edits import become, drop, function, node, set_attribute, through


def unscaled_channels(model):
    """Channels whose products are not divided by the root of the number of places."""
    drop(node(function(model, "channel_mix"), "Div", -1))


def channels_of_all_groups(model):
    """Values of channels in place of what attention makes of them."""
    body = function(model, "channel_mix")
    product = node(body, "MatMul", -1)
    become(product, "Identity", product.input[1])


def windows_of_columns(model):
    """Windows put together column by column."""
    set_attribute(node(function(model, "window_grid"), "Transpose"), "perm", [0, 1, 5, 2, 4, 3, 6])


def padding_by_the_edge(model):
    """The grid's last row and column in place of zeros around it, to whole windows."""
    set_attribute(node(function(model, "whole_windows"), "Pad"), "mode", "edge")


def convolution_without_residual(model):
    """A layer whose first convolution takes the place of what it reads."""
    body = function(model, "dual_layer")
    drop(node(body, "Add"), 1)


def rows_for_columns(model):
    """The vectors of rows and columns exchanged."""
    both = node(function(model, "positioned"), "Concat", 1)
    both.input[:] = reversed(both.input)


def mean_behind_the_places(model):
    """The mean behind the vectors of places."""
    every = node(function(model, "positioned"), "Concat", -1)
    every.input[:] = reversed(every.input)


def second_moment(model):
    """The position of a second image of a video."""
    body = function(model, "positioned")
    through(body, body.input[3], "Slice", [1], [2**31], [0])


def norm_of_places_alone(model):
    """Vectors that are projected without a norm."""
    body = function(model, "picture_vectors")
    drop(next(one for one in body.node if one.op_type.startswith("norm")))
