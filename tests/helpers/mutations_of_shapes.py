"""Mutations of patches of images of any shape: their positions, the mask, the pooling."""

from helpers.graph_edits import (
    become,
    constant_value,
    drop,
    function,
    node,
    set_attribute,
    set_constant,
    through,
)


def rows_for_columns(model):
    """Positions of an image whose rows and columns are exchanged."""
    body = function(model, "position_shares")
    where = node(body, "Concat")
    where.input[:] = [*where.input][::-1]


def aliased_positions(model):
    """Positions between the nearest ones alone, however many a patch spans."""
    body = function(model, "position_shares")
    support = node(body, "Max")
    become(support, "Div", support.input[0], support.input[0])


def corner_positions(model):
    """Positions of corners, not of the centres of patches."""
    body = function(model, "position_shares")
    added = node(body, "Add")
    drop(added)


def shares_that_do_not_add_up(model):
    """Shares of positions that are not divided by their sum."""
    divided = node(function(model, "position_shares"), "Div", -1)
    drop(divided)


def without_positions(model):
    """Patches without positions."""
    added = node(function(model, "naflex_embedding"), "Add")
    drop(added)


def padding_is_pooled(model):
    """A pool that reads padding too."""
    _without_mask(function(model, "attention_pool"))


def padding_is_attended(model):
    """Layers whose patches attend to padding too."""
    _without_mask(model.graph)


def _without_mask(body):
    mask = node(body, "padding_mask")
    ones = f"{mask.input[0]}.ones"
    equal = type(mask)()
    equal.CopyFrom(mask)
    become(equal, "Equal", mask.input[0], mask.input[0])
    equal.output[:], equal.name = [ones], ones
    position = list(body.node).index(mask)
    mask.input[0] = ones
    body.node.insert(position, equal)


def squares_of_one_shape(model):
    """Squares as if every image had as few columns as the narrowest one."""
    body = function(model, "squares")
    wide = node(body, "Squeeze", -1)
    through(body, wide.output[0], "ReduceMin", keepdims=1)


def squares_of_other_vectors(model):
    """The vectors of patches in reverse, those of the last image first."""
    body = function(model, "squares")
    through(body, node(body, "Gather").output[0], "Slice", [-1], [-(2**31)], [0], [-1])


def columns_for_rows_of_pixels(model):
    """A patch's column as its row, and its row as its column."""
    both = node(function(model, "patch_coordinates"), "Concat")
    both.input[:] = reversed(both.input)


def rows_alone(model):
    """Frequencies of columns that turn by rows too."""
    body = function(model, "rotation")
    axes = next(one for one in body.node if one.op_type == "Constant" and 1 in _ints(one))
    set_constant(axes, [0] * len(_ints(axes)))


def _ints(constant):
    value = constant_value(constant)
    return value if isinstance(value, list) else []


def neighbours_column_by_column(model):
    """Squares of patches whose rows and columns are exchanged."""
    set_attribute(node(function(model, "unfolded"), "Transpose"), "perm", [0, 1, 3, 5, 4, 2])


def numbers_of_a_patch_together(model):
    """Squares of patches one behind another, not number by number."""
    set_attribute(node(function(model, "unfolded"), "Transpose"), "perm", [0, 1, 3, 2, 4, 5])


def unnormed_patches(model):
    """Patches that are merged without their norm."""
    body = function(model, "patch_merger")
    drop(next(one for one in body.node if one.op_type.startswith("norm")))
