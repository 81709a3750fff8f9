"""Mutations of Fourier transforms."""

from helpers.graph_edits import become, drop, function, node


def add_sines(model):
    """The products of sines added."""
    part = node(function(model, "fourier_mixing"), "Sub")
    become(part, "Add", *part.input)


def mirror_without_sines(model):
    """The mirrored frequencies without the products of sines."""
    drop(node(function(model, "fourier_mixing"), "Add"))


def swap_tables_of_tokens(model):
    """Sines of tokens for cosines, and the reverse."""
    body = function(model, "fourier_mixing")
    cosines, sines = (node(body, "MatMul", place) for place in (1, 3))
    cosines.input[0], sines.input[0] = sines.input[0], cosines.input[0]


def backwards(model):
    """Angles of the other sign from half a turn on."""
    part = node(function(model, "fourier_tables"), "Sub")
    become(part, "Sub", *reversed(part.input))
