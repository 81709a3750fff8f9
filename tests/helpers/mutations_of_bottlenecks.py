"""Mutations of layers within bottlenecks, and of trigrams."""

from helpers.graph_edits import drop, function, node, swap_inputs
from helpers.mutations import blocks


def swap_neighbours(model):
    """The word before a word for the next one."""
    joined = node(function(model, "trigrams"), "Concat", -1)
    joined.input[0], joined.input[2] = joined.input[2], joined.input[0]


def unscaled_vectors(model):
    """A shift without its scale."""
    drop(node(function(model, "norm"), "Mul"))


def queries_of_the_residual(model):
    """Queries and keys from the vectors that attention is added to, and the reverse."""
    for leaf in ("", "_norm"):
        swap_inputs(blocks(model)[0], f".narrow{leaf}.weight", f".residual{leaf}.weight")


def drop_narrow_residual(model):
    """Attention without what it is added to."""
    drop(node(function(model, "bottleneck"), "Add"), 0)


def drop_last_network(model):
    """One network less in each layer."""
    drop(node(function(model, "bottleneck"), "Add", -1), 1)


def drop_columns_beside(model):
    """Scores of the vocabulary without the matrix beside the words'."""
    drop(node(function(model, "masked_lm_head"), "Add"))
