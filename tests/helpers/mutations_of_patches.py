"""Mutations of patches in a row: their places, and what they are made of."""

from helpers.graph_edits import drop, function, node, swap_inputs, through

EMBEDDING = "flattened_patches_embedding"


def columns_for_rows_of_patches(model):
    """Vectors of rows looked up by columns, and the reverse."""
    split = node(function(model, EMBEDDING), "Split")
    split.output[0], split.output[1] = split.output[1], split.output[0]


def one_row_earlier(model):
    """Patches whose rows count from 0."""
    body = function(model, EMBEDDING)
    through(body, node(body, "Cast").output[0], "Sub", 1)


def tables_exchanged(model):
    """The table of columns for rows, and the reverse."""
    call = next(one for one in model.graph.node if one.op_type == EMBEDDING)
    swap_inputs(call, "row.weight", "column.weight")


def patches_without_columns(model):
    """Patches placed by their rows alone."""
    drop(node(function(model, EMBEDDING), "Add", -1))
