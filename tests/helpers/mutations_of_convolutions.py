"""Mutations of networks of convolutions: their layers, the steps between stages, the last map."""

from helpers.graph_edits import constant, drop, function, node, set_attribute, set_constant, starting


def mean_before_stages(model):
    """The mean of the stem's pixels, not the largest."""
    pool = node(starting(model, "resnet_maps_embedding"), "MaxPool")
    pool.op_type = "AveragePool"


def linear_parts(model):
    """A residual layer without the ReLU between its convolutions."""
    act = node(starting(model, "residual_layer"), "Relu")
    drop(act)


def turned_map(model):
    """A last map whose rows and columns are exchanged."""
    set_attribute(node(function(model, "last_map"), "Transpose"), "perm", [0, 3, 2, 1])


def convolved_one_place_later(model):
    """A depthwise convolution that reads one place less above and on the left."""
    set_attribute(node(starting(model, "convnext_layer"), "Conv"), "pads", [2, 2, 4, 4])


def unscaled_layer(model):
    """A layer whose output no vector multiplies."""
    scaled = node(starting(model, "convnext_layer"), "Mul")
    drop(scaled)


def drop_layer_residual(model):
    """A layer without what it reads."""
    added = node(starting(model, "convnext_layer"), "Add", -1)
    drop(added, 1)


def unnormed_layer(model):
    """A layer's network without the norm before it."""
    normed = node(starting(model, "convnext_layer"), "norm")
    drop(normed)


def merged_rounded_up(model):
    """Places that zeros fill to whole squares, between two stages."""
    set_attribute(node(starting(model, "convnext_merging"), "Conv"), "pads", [0, 0, 1, 1])


def merged_without_norm(model):
    """Squares of places that are projected without a norm."""
    normed = node(starting(model, "convnext_merging"), "norm")
    drop(normed)


def responses_of_columns(model):
    """Responses of each column of a map to its own places."""
    set_constant(constant(function(model, "response_norm"), [1, 2]), [1])


def absolute_responses(model):
    """Responses that are no shares of their mean."""
    shared = node(function(model, "response_norm"), "Div", -1)
    drop(shared)


def responses_without_residual(model):
    """Channels by their responses alone."""
    added = node(function(model, "response_norm"), "Add", -1)
    drop(added)


def unnormed_maps(model):
    """The finest map as the next stage reads it, without the norm for the head."""
    body = starting(model, "convnext_embedding")
    normed = node(body, "norm", 1)  # behind that of the patches
    drop(normed)
