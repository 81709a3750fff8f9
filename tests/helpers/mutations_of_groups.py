"""Mutations of projections in groups."""

from helpers.graph_edits import node, starting, through
from helpers.mutations import blocks


def swap_inputs_of_groups(model):
    """The first two groups read each other's parts of a vector."""
    split = node(starting(model, "in_groups"), "Split")
    split.output[0], split.output[1] = split.output[1], split.output[0]


def swap_outputs_of_groups(model):
    """The outputs of the first two groups exchanged."""
    joined = node(starting(model, "in_groups"), "Concat")
    joined.input[0], joined.input[1] = joined.input[1], joined.input[0]


def drop_bias_of_a_group(model):
    """The last group of the values without its bias."""
    [*_, bias] = [
        name for name in blocks(model)[0].input if ".attention.v.groups." in name and "bias" in name
    ]
    through(model.graph, bias, "Mul", 0.0)
