"""Mutations of experts that take a limited number of tokens of a row."""

from helpers.graph_edits import drop, function, node, set_attribute, set_constant


def _router(model):
    return function(model, "router")


def room_for_all(model):
    """Experts that take every token."""
    drop(node(_router(model), "Where"), 2)


def room_for_one_more(model):
    """Room for one token more."""
    body = _router(model)
    greater = node(body, "Greater")
    room = next(one for one in body.node if greater.input[1] in one.output)
    set_constant(room, 4)


def crowds_of_batches(model):
    """Tokens counted over the rows of a batch, not over each."""
    body = _router(model)
    axis = node(body, "CumSum").input[1]
    set_constant(next(one for one in body.node if axis in one.output), 0)


def last_come_first(model):
    """The last tokens of a row served, not the first."""
    set_attribute(node(_router(model), "CumSum"), "reverse", 1)
