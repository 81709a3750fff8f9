"""Mutations of question-aware spans."""

from helpers.graph_edits import drop, function, node, replace_input


def _head(model):
    return function(model, "question_span_head")


def no_projection_of_the_question(model):
    """The question's vector without its last projection."""
    body = _head(model)
    drop(node(body, "linear_plain"))


def ends_by_the_start(model):
    """The scores of ends as products with the vector for starts."""
    body = _head(model)
    first, second = node(body, "MatMul"), node(body, "MatMul", 1)
    replace_input(second, second.input[1], first.input[1])


def no_norm_of_tokens(model):
    """Tokens without the norm behind their dense layer."""
    body = _head(model)
    drop(next(one for one in body.node if "each_end_norm_weight" in one.input))
