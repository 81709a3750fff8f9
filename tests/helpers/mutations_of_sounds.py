"""Mutations of sounds that are compared with texts: bands, frames, parts, projections, scales."""

from helpers.graph_edits import constant_value, drop, function, node, set_constant, through


def linear_pooler(model):
    """A text's vector without tanh."""
    tanh = node(model.graph, "Tanh")
    drop(tanh)


def linear_projection(model):
    """The two projections of a sound without the activation between them."""
    relu = node(function(model, "two_layers"), "relu")
    drop(relu)


def bands_not_normalised(model):
    """Bands as they are, without their means and variances of training."""
    norm = node(function(model, "batch_norm"), "BatchNormalization")
    drop(norm)


def frames_one_earlier(model):
    """Every frame from the place of the one before it."""
    through(function(model, "cubic"), "before", "Sub", 1)


def other_cubic(model):
    """The nearest frames weighted as with a slope of -0.5, not -0.75."""
    constants = [one for one in function(model, "cubic").node if one.op_type == "Constant"]
    for old, new in ((1.25, 1.5), (2.25, 2.5)):
        changed = [one for one in constants if constant_value(one) == old]
        assert changed
        for one in changed:
            set_constant(one, new)


def parts_within_bands(model):
    """The parts of a band one below the other, not the bands of a part."""
    body = function(model, "spectrogram_grid_embedding")
    turned = next(one for one in body.node if one.op_type == "Transpose" and len(one.attribute[0].ints) == 4)
    drop(turned)


def one_scale(model):
    """The scores of sounds with the scale of texts."""
    scale = node(function(model, "similarity"), "Exp", 1)
    assert list(scale.input) == ["signal_scale"]
    scale.input[:] = ["scale"]
