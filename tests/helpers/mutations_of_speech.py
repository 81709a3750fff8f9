"""Mutations for decoders of sounds: gated convolutions, their positions, the mask of their vectors."""

from helpers.graph_edits import attribute, become, function, node, set_attribute


def swapped_halves(model):
    """Values and gates of a convolution exchanged."""
    halves = node(function(model, "gated_convolution"), "Split")
    halves.output[:] = reversed(halves.output)


def frames_one_later(model):
    """A convolution that reads one frame later."""
    convolution = node(function(model, "gated_convolution"), "Conv")
    before, after = attribute(convolution, "pads")
    set_attribute(convolution, "pads", [before - 1, after + 1])


def drop_positions(model):
    """Vectors of a sound without positions."""
    added = node(function(model, "gated_frames_embedding"), "Add", -1)
    become(added, "Identity", added.input[0])


def unscaled_sound(model):
    """Vectors of a sound as the convolutions give them."""
    scaled = node(function(model, "gated_frames_embedding"), "Mul")
    become(scaled, "Identity", scaled.input[0])


def padding_heard(model):
    """A mask of one vector more than a sound has."""
    real = node(function(model, "source_mask"), "Less")
    become(real, "LessOrEqual", *real.input)
