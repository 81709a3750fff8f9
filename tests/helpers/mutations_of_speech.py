"""Mutations for decoders of sounds: gated convolutions, their positions, the mask of their vectors."""

from helpers.graph_edits import become, convolve_later, drop, function, node, swap_halves


def swapped_halves(model):
    """Values and gates of a convolution exchanged."""
    swap_halves(function(model, "gated_convolution"))


def frames_one_later(model):
    """A convolution that reads one frame later."""
    convolve_later(function(model, "gated_convolution"))


def drop_positions(model):
    """Vectors of a sound without positions."""
    added = node(function(model, "gated_frames_embedding"), "Add", -1)
    drop(added)


def unscaled_sound(model):
    """Vectors of a sound as the convolutions give them."""
    scaled = node(function(model, "gated_frames_embedding"), "Mul")
    drop(scaled)


def padding_heard(model):
    """A mask of one vector more than a sound has."""
    real = node(function(model, "source_mask"), "Less")
    become(real, "LessOrEqual", *real.input)
