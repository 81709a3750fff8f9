"""Mutations of experts that take a limited number of tokens of a row."""

from helpers.graph_edits import drop, function, node, set_attribute, set_constant


def _router(model):
    return function(model, "router")


def no_limit(model):
    """Experts that take every token."""
    drop(node(_router(model), "Where"), 2)


def one_token_more(model):
    """Experts that take one token more."""
    body = _router(model)
    greater = node(body, "Greater")
    limit = next(one for one in body.node if greater.input[1] in one.output)
    set_constant(limit, 4)


def counted_over_the_batch(model):
    """Tokens counted over the rows of a batch, not over each."""
    body = _router(model)
    axis = node(body, "CumSum").input[1]
    set_constant(next(one for one in body.node if axis in one.output), 0)


def last_tokens_first(model):
    """The last tokens of a row served, not the first."""
    set_attribute(node(_router(model), "CumSum"), "reverse", 1)
