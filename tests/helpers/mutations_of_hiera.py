"""Mutations of Hiera and SAM 2: pooled queries, positions of windows, the neck of maps, and its decoder."""

from helpers.graph_edits import (
    become,
    constant,
    drop,
    function,
    node,
    producer,
    set_attribute,
    set_constant,
    starting,
    through,
)


def means_of_squares(model):
    """Queries that are the means of squares, not their maxima."""
    pool = node(function(model, "largest"), "MaxPool")
    sides = {"kernel_shape": [2, 2], "strides": [2, 2]}
    become(pool, "AveragePool", pool.input[0], **sides)


def unscaled_pooled_scores(model):
    """Attention of pooled queries whose scores are not divided by the root of the head size."""
    set_attribute(node(starting(model, "pooled_attention"), "plain_mix"), "scale", 1.0)


def unscaled_scores_everywhere(model):
    """The same, where a query attends to all of a grid."""
    bodies = [one for one in model.functions if one.name.startswith("pooled_attention")]
    body = next(one for one in bodies if not any(part.op_type == "window_rows" for part in one.node))
    set_attribute(node(body, "plain_mix"), "scale", 1.0)


def residual_before_the_norm(model):
    """A residual that leaves the projection's input without its norm."""
    body = starting(model, "query_pooling")
    project = next(one for one in body.node if one.op_type.startswith("linear"))
    project.input[0] = body.input[0]


def background_alone(model):
    """Positions without those of a window."""
    body = function(model, "windowed_position")
    added = node(body, "Add")
    drop(added)


def turned_window(model):
    """Positions of a window with rows and columns exchanged."""
    set_attribute(node(function(model, "windowed_position"), "Transpose", 1), "perm", [2, 1, 0])


def without_top_down(model):
    """Maps to which no coarser one is added."""
    body = function(model, "map_neck")
    added = node(body, "Add")
    drop(added)


def with_memory(model):
    """The third map without the vector that stands for no memory."""
    body = function(model, "map_neck")
    added = node(body, "Add", -1)
    drop(added)


def none_is_padding(model):
    """A last point whose vector is 0."""
    set_constant(constant(function(model, "with_boxes"), [2, 3, -1]), [2, 3, -10])


def corners_exchanged(model):
    """The lower right corner of a box as its upper left one."""
    set_constant(constant(function(model, "with_boxes"), [2, 3, -1]), [3, 2, -1])


def without_finest_map(model):
    """The last doubling without the image's finest map."""
    added = node(starting(model, "mask_decoder"), "of_image", -1)
    drop(added)


def scores_without_sigmoid(model):
    """Scores that are logits."""
    sigmoid = node(starting(model, "mask_decoder"), "Sigmoid")
    drop(sigmoid)


def object_of_another_token(model):
    """The object's score of the token for the other scores."""
    body = starting(model, "mask_decoder")
    token = [one for one in body.node if one.op_type == "Gather"][-1]
    set_constant(producer(body, token.input[1]), 1)


def unstable_is_given(model):
    """The mask for clear prompts where it is unstable too."""
    body = starting(model, "stable_first")
    through(body, node(body, "Div").output[0], "Add", 1.0)


def least_likely_instead(model):
    """The least likely of the other masks in place of an unstable one."""
    become(
        node(starting(model, "stable_first"), "ArgMax"),
        "ArgMin",
        node(starting(model, "stable_first"), "ArgMax").input[0],
        axis=2,
    )
