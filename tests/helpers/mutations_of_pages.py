"""Mutations of pages and queries: the vectors of images among tokens, the projection, the norm, the mask."""

from onnx import helper

from helpers.graph_edits import become, drop, function, named, node, set_constant, through


def without_projection(model):
    """Hidden states that begin as they are, in place of their projection."""
    projection = named(model, "projection")
    size = next(one for one in model.graph.initializer if one.name == projection.input[2]).dims[0]
    become(projection, "Slice", projection.input[0], *_ints(model, [0], [size], [2]))


def _ints(model, *values):
    """Names of new constants of whole numbers, before all other nodes."""
    names = []
    for number, value in enumerate(values):
        names.append(f"mutation.{number}")
        model.graph.node.insert(0, helper.make_node("Constant", [], [names[-1]], value_ints=value))
    return names


def not_of_unit_length(model):
    """Vectors that are not normalised."""
    drop(node(function(model, "unit_unless_masked"), "Div"))


def vectors_of_padding(model):
    """Vectors of padding in place of zeros."""
    drop(node(function(model, "unit_unless_masked"), "Where"), 1)


def normalised_along_rows(model):
    """Numbers that are normalised over the tokens of a row."""
    set_constant(node(function(model, "unit_unless_masked"), "Constant"), [1])


def later_tokens(model):
    """Tokens that attend to themselves and later ones, in place of earlier ones."""
    node(function(model, "causal_mask"), "LessOrEqual").op_type = "GreaterOrEqual"


def patches_in_reverse(model):
    """The vectors of an image from the last patch to the first."""
    connector = named(model, "connector")
    through(model.graph, connector.input[0], "Slice", [-1], [-(2**31)], [1], [-1])
