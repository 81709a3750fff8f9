"""Mutations of biases of distances between patches."""

from helpers.graph_edits import constant_value, function, node, set_constant, through


def rows_for_columns(model):
    """Distances in rows for those in columns."""
    body = function(model, "patch_bias")
    down, across = [one for one in body.node if one.op_type == "Sub"]
    across.input[:] = down.input


def opposite_distances(model):
    """The bias of a key's distance to a query."""
    body = function(model, "patch_bias")
    gather = node(body, "Gather")
    through(body, gather.input[1], "Transpose", perm=[1, 0])


def image_as_a_patch(model):
    """The image's own bias as that for patches."""
    body = function(model, "patch_bias")
    last = max(
        (one for one in body.node if one.op_type == "Constant" and isinstance(constant_value(one), int)),
        key=constant_value,
    )
    set_constant(last, constant_value(last) - 2)


def keys_of_another_head(model):
    """Biases of the heads before."""
    body = function(model, "patch_bias")
    through(body, body.input[0], "Gather", [2, 0, 1], axis=1)
