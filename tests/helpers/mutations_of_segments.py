"""Mutations of a segmenter: the reduced keys, the convolutions over grids, the maps of the head."""

from helpers.graph_edits import drop, function, node, set_attribute


def _first(model, name):
    """The first function whose name begins so."""
    return next(one for one in model.functions if one.name.startswith(name))


def keys_one_vector_earlier(model):
    """Keys of squares that begin a row and a column earlier."""
    reduced = next(
        one for one in model.functions if one.name.startswith("reduced_attention") and _convolves(one)
    )
    set_attribute(node(reduced, "Conv"), "pads", [1, 1, 0, 0])


def _convolves(body) -> bool:
    return any(one.op_type == "Conv" for one in body.node)


def unscaled_scores(model):
    """Attention scores that are not divided by the root of the head size."""
    set_attribute(node(_first(model, "reduced_attention"), "plain_mix"), "scale", 1.0)


def convolved_one_vector_later(model):
    """A network's convolution that reads the neighbours below and to the right."""
    set_attribute(node(_first(model, "convolved_feed_forward"), "Conv"), "pads", [0, 0, 2, 2])


def merged_one_vector_later(model):
    """A merging whose kernels begin a row and a column later."""
    set_attribute(node(_first(model, "convolved_merging"), "Conv"), "pads", [0, 0, 2, 2])


def patches_without_border(model):
    """Patches that begin in the corner, not around it."""
    set_attribute(node(_first(model, "patch_grid_embedding"), "Conv"), "pads", [0, 0, 6, 6])


def corner_pixels(model):
    """Interpolation between the centres of the pixels in the corners."""
    resize = node(function(model, "bilinear"), "Resize")
    set_attribute(resize, "coordinate_transformation_mode", "align_corners")


def nearest_places(model):
    """The nearest place in place of an interpolation."""
    set_attribute(node(function(model, "bilinear"), "Resize"), "mode", "nearest")


def drop_coarsest(model):
    """Scores without the coarsest map."""
    added = node(function(model, "segments_head"), "Add", -1)
    drop(added)


def linear_segments(model):
    """Scores without the ReLU before them."""
    act = node(function(model, "segments_head"), "Relu")
    drop(act)


def larger_epsilon(model):
    """A variance of the batch norm that is larger by a tenth."""
    set_attribute(node(_first(model, "batch_norm"), "BatchNormalization"), "epsilon", 0.1)
