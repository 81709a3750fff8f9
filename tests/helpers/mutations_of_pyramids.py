"""Mutations of labels of pixels from several layers: the maps, their pooling, the levels and their scores."""

from helpers.graph_edits import become, drop, function, node, producer, set_attribute, set_constant


def _joining(model):
    """The function that joins levels."""
    return next(one for one in model.functions if one.name in ("pyramid", "map_pyramid"))


def maximum_for_mean(model):
    """The coarsest map of means, not of the largest values."""
    pooled = node(function(model, "pyramid"), "MaxPool")
    become(pooled, "AveragePool", pooled.input[0], kernel_shape=[2, 2], strides=[2, 2])


def sums_for_means(model):
    """Pooled sums of the columns of a part, not means."""
    shares = node(function(model, "shares"), "Div", -1)
    drop(shares)


def patches_one_earlier(model):
    """The class token for the first patch, and no last one."""
    body = function(model, "pyramid")
    slices = [one for one in body.node if one.op_type == "Slice"]
    set_constant(producer(body, slices[0].input[1]), [0])
    for patches in slices:
        end = producer(body, patches.input[2])
        become(end, "Constant", value_ints=[-1])


def levels_one_layer_later(model):
    """Each level but the last that of the next layer read."""
    head = node(model.graph, "pyramid_head")
    head.input[:3] = head.input[1:4]


def finest_without_activation(model):
    """The finest map without the GELU between its two transposed convolutions."""
    act = node(function(model, "finest"), "gelu")
    drop(act)


def drop_top(model):
    """Levels to which the coarsest is not added."""
    added = node(_joining(model), "Add")
    drop(added)


def levels_in_reverse(model):
    """The finest and the coarsest level exchanged before the joint convolution."""
    joined = node(_joining(model), "Concat", -1)
    joined.input[:] = [*joined.input][::-1]


def outputs_before_addition(model):
    """The finest output of a level to which the coarser ones are not added."""
    body = _joining(model)
    finest = node(body, "Add", -1)
    drop(finest)


def linear_level(model):
    """A lateral map without its ReLU."""
    act = node(_joining(model), "Relu")
    drop(act)


def linear_scores(model):
    """Scores of a fused map without the ReLU before them."""
    act = node(function(model, "fused_segments_head"), "Relu")
    drop(act)


def scores_between_all_centres(model):
    """Scores, and maps, interpolated between the centres of all pixels, not of those in the corners."""
    resize = node(function(model, "corner_aligned"), "Resize")
    set_attribute(resize, "coordinate_transformation_mode", "half_pixel")


def unit_without_norm(model):
    """A residual unit without the batch norm behind its first convolution."""
    normed = node(function(model, "residual_unit"), "batch_norm")
    drop(normed)
