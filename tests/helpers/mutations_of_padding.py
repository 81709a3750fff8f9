"""Mutations of vectors of padding."""

from helpers.graph_edits import drop


def unmasked_output(model):
    """Vectors of padding that are not 0: a head may read the first of a row padded on the left."""
    drop([node for node in model.graph.node if node.op_type == "Mul"][-1])
