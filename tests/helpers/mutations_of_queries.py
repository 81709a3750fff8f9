"""Mutations of queries over an image: its network, positions, masks, attention both ways."""

from helpers.graph_edits import drop, function, node, set_attribute, starting, through


def ignore_padding(model):
    """Places of padding that are seen as others are."""
    body = function(model, "resized_mask")
    numbers = node(body, "CastLike").output[0]
    through(body, numbers, "Max", 1.0)


def padding_is_counted(model):
    """Positions of rows and columns that count padding."""
    body = starting(model, "sine_positions")
    count = node(body, "CastLike")
    through(body, count.output[0], "Max", 1.0)


def rows_for_columns(model):
    """Positions whose columns are counted down the rows."""
    body = starting(model, "sine_positions")
    second = [one for one in body.node if one.op_type == "CumSum"][1]
    first = node(body, "CumSum")
    second.input[1] = first.input[1]


def counted_from_zero(model):
    """Positions that begin with 0."""
    body = starting(model, "sine_positions")
    for one in [one for one in body.node if one.op_type == "CumSum"]:
        set_attribute(one, "exclusive", 1)


def larger_mask_pixels(model):
    """A mask whose pixels are rounded to the nearest, not down."""
    resize = node(function(model, "resized_mask"), "Resize")
    set_attribute(resize, "coordinate_transformation_mode", "half_pixel")
    set_attribute(resize, "nearest_mode", "round_prefer_ceil")


def values_with_positions(model):
    """Values of the places' attention that have positions too."""
    body = starting(model, "query_layer")
    attention = next(one for one in body.node if one.op_type.startswith("separate_attention"))
    attention.input[2] = attention.input[1]


def drop_residual(model):
    """A residual layer without what it reads."""
    body = starting(model, "residual_layer")
    added = node(body, "Add", -1)
    drop(added)


def linear_residual(model):
    """A residual layer without its last ReLU."""
    body = starting(model, "residual_layer")
    act = node(body, "Relu", -1)
    drop(act)


def average_pooling(model):
    """The mean of the stem's pixels, not the largest."""
    body = starting(model, "resnet_embedding")
    pool = node(body, "MaxPool")
    pool.op_type = "AveragePool"


def stem_one_pixel_later(model):
    """A stem that reads a pixel to the right and below."""
    body = next(
        one for one in model.functions if one.name.startswith("convolution_norm") and _kernel(one) == 3
    )
    set_attribute(node(body, "Conv"), "pads", [2, 2, 4, 4])


def _kernel(body):
    """Half the side of a convolution's kernel, by its padding."""
    pads = next(one for one in node(body, "Conv").attribute if one.name == "pads")
    return pads.ints[0]
