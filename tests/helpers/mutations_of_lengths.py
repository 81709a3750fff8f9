"""Mutations where layers have another number of vectors than the stack returns."""

from helpers.graph_edits import (
    attribute,
    become,
    constant,
    convolve_later,
    drop,
    function,
    node,
    set_constant,
    swap_halves,
    through,
)


def largest_of_each_group(model):
    """The largest numbers of a group of vectors, not their mean."""
    means = node(function(model, "squeeze"), "AveragePool")
    become(means, "MaxPool", *means.input, kernel_shape=attribute(means, "kernel_shape"), strides=[2])


def squeezed_places_one_later(model):
    """Positions of groups, one vector later."""
    convolve_later(function(model, "squeeze"))


def drop_squeezed_places(model):
    """Means of groups without positions."""
    through(function(model, "squeeze"), "positions", "Mul", 0.0)


def whole_groups_alone(model):
    """No vector attends to a group that ends with padding."""
    pooled = node(function(model, "pooled_mask"), "MaxPool")
    become(pooled, "AveragePool", *pooled.input, kernel_shape=[2], strides=[2])


def zeros_before_vectors(model):
    """Zeros for dropped vectors before the others."""
    pads = node(function(model, "upsampling"), "Concat")
    zeros, lost, zero = pads.input
    pads.input[:] = [zero, lost, zeros]


def linear_upsampling(model):
    """Upsampled vectors without activation."""
    act = node(function(model, "upsampling"), "gelu")
    drop(act)


def swapped_halves(model):
    """Values and gates of a length adapter's convolutions exchanged."""
    swap_halves(function(model, "gated_convolution"))


def convolved_one_later(model):
    """A length adapter's convolutions that begin one vector later."""
    convolve_later(function(model, "gated_convolution"))


def one_shortened_vector_more(model):
    """A vector of padding that counts as one behind a length adapter."""
    compared = node(function(model, "shortened_mask"), "Less")
    become(compared, "LessOrEqual", *compared.input)


def other_residual(model):
    """The residual of a length adapter's layer is what its attention reads."""
    first, second = (node(function(model, "adapter_block"), "gated_convolution", place) for place in (0, 1))
    second.input[:] = first.input


def adapter_without_mask(model):
    """Attention of a length adapter to padding too."""
    body = function(model, "adapter_block")
    through(body, body.input[1], "Max", 1)


def whole_feed_forward_before(model):
    """The output of the feed-forward network before a length adapter added, not half of it."""
    set_constant(constant(function(model, "half_feed_forward"), 0.5), 1.0)
