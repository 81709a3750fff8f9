"""Mutations for Conformers: padding, distances, the convolution, half feed-forward networks."""

from helpers.graph_edits import (
    constant,
    convolve_later,
    drop,
    function,
    node,
    set_attribute,
    set_constant,
    swap_halves,
    through,
)


def convolve_padding(model):
    """The convolution reads the vectors of padding."""
    masked = node(function(model, "conformer_convolution"), "Where")
    drop(masked, 1)


def later_vectors(model):
    """The convolution reads one vector later."""
    convolve_later(function(model, "conformer_convolution"))


def swapped_gates(model):
    """Values and gates of the convolution exchanged."""
    swap_halves(function(model, "conformer_convolution"))


def whole_feed_forward(model):
    """The output of each feed-forward network added, not half of it."""
    set_constant(constant(function(model, "conformer_block"), 0.5), 1.0)


def drop_last_norm(model):
    """A layer without its last norm."""
    norm = node(function(model, "conformer_block"), "norm", -1)
    drop(norm)


def keys_one_later(model):
    """Vectors of distances of the next key."""
    through(function(model, "clipped_distances"), "apart", "Add", 1)


def distances_reversed(model):
    """Distances of a query after a key."""
    through(function(model, "clipped_distances"), "apart", "Neg")


def clipped_earlier(model):
    """Distances clipped one earlier on the left."""
    body = function(model, "clipped_distances")
    least = node(body, "Max")
    through(body, least.output[0], "Max", -5)


def rows_one_later(model):
    """Sinusoids of distances of the next key."""
    body = function(model, "sinusoid_vectors")
    through(body, "distances", "Sub", 1)


def sines_before_cosines(model):
    """All sines before all cosines, not in pairs."""
    pairs = node(function(model, "sinusoid_vectors"), "Concat")
    set_attribute(pairs, "axis", 1)


def subsample_padding(model):
    """Convolutions over a spectrogram that read frames of padding."""
    for masked in [one for one in function(model, "subsampled_embedding").node if one.op_type == "Where"]:
        drop(masked, 1)


def unscaled_frames(model):
    """The output of the subsampling without its scale."""
    scaled = node(function(model, "subsampled_embedding"), "Mul")
    drop(scaled)


def drop_mean(model):
    """A batch norm without its mean."""
    through(function(model, "batch_norm"), "mean", "Mul", 0.0)


def unrotated_inputs(model):
    """Queries and keys of vectors that are not rotated."""
    turned = node(function(model, "rotated_input_attention"), "RotaryEmbedding")
    drop(turned)


def rotated_values(model):
    """Values of rotated vectors too."""
    body = function(model, "rotated_input_attention")
    values = next(one for one in body.node if one.op_type.startswith("linear") and one.input[0] == "x")
    values.input[0] = "rotated"


def rotated_twice(model):
    """Vectors rotated by twice their positions."""
    body = function(model, "positions")
    through(body, node(body, "Range").output[0], "Mul", 2)


def frames_not_zeroed(model):
    """Vectors of padding that are not zeros before the first layer."""
    zeroed = node(function(model, "frames_embedding"), "Where")
    drop(zeroed, 1)
