"""Mutations of masks for prompts: windows and distances, labels of points, attention both ways, upscaling."""

from helpers.graph_edits import (
    constant,
    drop,
    function,
    node,
    producer,
    replace_input,
    set_constant,
    starting,
    through,
)


def without_distances(model):
    """Queries without their products with the vectors of rows and columns."""
    body = starting(model, "with_distances")
    for product in [one.output[0] for one in body.node if one.op_type == "MatMul"]:
        through(body, product, "Mul", 0.0)


def rows_as_columns(model):
    """The vectors of columns for distances in rows."""
    body = starting(model, "with_distances")
    gathers = [one for one in body.node if one.op_type == "Gather"]
    rows, columns = gathers[0].input[0], gathers[1].input[0]
    replace_input(gathers[0], rows, columns)


def scaled_distances(model):
    """Products of distances with queries that are already scaled."""
    body = starting(model, "with_distances")
    grid = node(body, "Reshape")
    replace_input(grid, body.input[0], body.input[1])


def unnormed_neck(model):
    """A neck without its last norm."""
    body = starting(model, "neck")
    norm = next(one for one in reversed(body.node) if one.op_type.startswith("norm"))
    drop(norm)


def swapped_coordinates(model):
    """Places encoded with x and y exchanged."""
    body = starting(model, "frequencies")
    through(body, node(body, "Sub").output[0], "Gather", [1, 0], axis=-1)


def corners_of_pixels(model):
    """Points at the corners of pixels, not at their centres."""
    set_constant(constant(function(model, "relative_points"), 0.5), 0.0)


def padding_is_a_point(model):
    """Padding that keeps its vector."""
    chosen = constant(function(model, "prompts"), -10)
    set_constant(chosen, -11)


def outside_is_inside(model):
    """Points outside of an object as if they were in it."""
    body = function(model, "prompts")
    inside = next(name for name in body.input if "labels_1" in name)
    outside = next(name for name in body.input if "labels_0" in name)
    for one in body.node:
        one.input[:] = [inside if name == outside else name for name in one.input]


def doubled_prompts(model):
    """The second layer's attention of prompts to themselves, which counts twice."""
    layers = [one for one in model.functions if one.name.startswith("two_way_layer")]
    body = max(layers, key=lambda one: len(one.node))  # the first has no residual there
    attended = next(one for one in body.node if one.op_type.startswith("separate_attention"))
    through(body, attended.output[0], "Mul", 2.0)


def image_without_positions(model):
    """The last attention to an image whose places have no positions."""
    body = function(model, "two_way")
    placed = node(body, "Add")
    drop(placed)


def linear_upscaling(model):
    """The last upscaling without its activation."""
    body = function(model, "mask_decoder")
    last = next(one for one in reversed(body.node) if one.op_type == "gelu")
    drop(last)


def scores_of_the_first_mask(model):
    """Scores of the first mask's vector, not of the token for scores."""
    body = function(model, "mask_decoder")
    token = [one for one in body.node if one.op_type == "Gather"][-1]
    index = producer(body, token.input[1])
    set_constant(index, 1)


def drop_no_mask(model):
    """Places without the vector that stands for no mask."""
    body = function(model, "of_each_prompted")
    through(body, next(name for name in body.input if name == "no_mask"), "Mul", 0.0)


def masks_are_none(model):
    """Masks that are not read."""
    set_constant(constant(function(model, "of_each_prompted"), 0), 1)


def linear_masks(model):
    """Masks whose last convolution reads what is not activated."""
    body = function(model, "mask_prompt")
    last = next(one for one in reversed(body.node) if one.op_type == "gelu")
    drop(last)


def unnormed_masks(model):
    """Masks whose first convolution has no norm behind it."""
    body = function(model, "mask_prompt")
    norm = next(one for one in body.node if one.op_type.startswith("norm"))
    drop(norm)
