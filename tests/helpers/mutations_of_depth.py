"""Mutations of depth estimation: the layers read, their maps, the fusion, the interpolation."""

from helpers.graph_edits import (
    become,
    constant_value,
    drop,
    function,
    node,
    producer,
    set_attribute,
    set_constant,
)


def _head(model):
    return node(model.graph, "depth_head")


def half_pixels(model):
    """Interpolation between the centres of all pixels, not of those in the corners."""
    resize = node(function(model, "corner_aligned"), "Resize")
    set_attribute(resize, "coordinate_transformation_mode", "half_pixel")


def nearest_pixels(model):
    """The nearest pixel in place of an interpolation."""
    set_attribute(node(function(model, "corner_aligned"), "Resize"), "mode", "nearest")


def fused_one_layer_later(model):
    """Each map but the last that of the next layer read."""
    head = _head(model)
    head.input[:3] = head.input[1:4]


def unnormed_layer(model):
    """The first layer's state without the final norm."""
    first = producer(model.graph, _head(model).input[0])
    drop(first)


def patches_one_earlier(model):
    """The class token for the first patch, and no last one."""
    body = function(model, "feature_map")
    patches = node(body, "Slice")
    start, end = (producer(body, name) for name in patches.input[1:3])
    set_constant(start, [constant_value(start)[0] - 1])
    become(end, "Constant", value_ints=[-1])


def convolved_one_pixel_later(model):
    """A residual unit that reads a pixel to the right and below."""
    set_attribute(node(function(model, "residual_unit"), "Conv"), "pads", [0, 0, 2, 2])


def drop_residual(model):
    """Convolutions without their residual."""
    added = node(function(model, "residual_unit"), "Add")
    drop(added, 1)


def linear_unit(model):
    """A residual unit without its first ReLU."""
    first = node(function(model, "residual_unit"), "Relu")
    drop(first)


def unprojected(model):
    """A head without the ReLU behind its first convolution."""
    act = node(function(model, "depth_head"), "Relu")
    drop(act)


def nearest_finer_maps(model):
    """Finer maps that are not interpolated between the centres of pixels."""
    set_attribute(node(function(model, "bilinear"), "Resize"), "mode", "nearest")


def shares_exchanged(model):
    """Maps of two resolutions, each by the other's share."""
    body = function(model, "selective_fusion")
    first, second = (node(body, "Mul", place) for place in (0, 1))
    first.input[1], second.input[1] = second.input[1], first.input[1]


def coarse_before_fine(model):
    """The coarser map before the finer one in what their shares are made of."""
    both = node(function(model, "selective_fusion"), "Concat")
    both.input[:] = [*both.input][::-1]


def linear_fusion(model):
    """Shares without the first ReLU."""
    act = node(function(model, "selective_fusion"), "Relu")
    drop(act)


def drop_finer_maps(model):
    """Coarse maps to which none is added."""
    added = next(node(one, "Add") for one in model.functions if _adds(one))
    drop(added)


def _adds(body) -> bool:
    return body.name.startswith("feature_fusion") and any(one.op_type == "Add" for one in body.node)


def linear_head(model):
    """The last convolutions without the ReLU between them."""
    act = node(function(model, "depth_head"), "Relu")
    drop(act)


def negative_depths(model):
    """Depths without the last ReLU."""
    act = node(function(model, "depth_head"), "Relu", -1)
    drop(act)


def clipped_metric(model):
    """A linear ramp for the sigmoid of metric depths."""
    act = node(function(model, "depth_head"), "Sigmoid")
    become(act, "HardSigmoid", act.input[0], alpha=0.25)


def shallower(model):
    """A greatest depth of 19."""
    body = function(model, "depth_head")
    set_constant(
        next(one for one in body.node if one.op_type == "Constant" and constant_value(one) == 20), 19
    )


def class_one_later(model):
    """The first patch for the class token."""
    body = function(model, "feature_map")
    first = node(body, "Slice", 1)
    for name in first.input[1:3]:
        bound = producer(body, name)
        set_constant(bound, [constant_value(bound)[0] + 1])


def linear_readout(model):
    """The projection of patch and class token without its activation."""
    act = node(function(model, "feature_map"), "gelu")
    drop(act)


def class_before_patch(model):
    """The projection of class token and patch, in that order."""
    both = node(function(model, "feature_map"), "Concat", 1)  # the first is of a shape
    both.input[:] = both.input[::-1]
