"""Mutations of sounds among tokens: padding, the pairs of vectors that are pooled, and the projection."""

from onnx import helper

from helpers.graph_edits import become, drop, function, node, set_constant, through


def padding_heard(model):
    """Layers that attend to the vectors of padding too."""
    masked = node(model.graph, "padding_mask")
    mask, place = masked.input[0], list(model.graph.node).index(masked)
    equal, ones = f"{mask}.equal", f"{mask}.ones"
    model.graph.node.insert(place, helper.make_node("Cast", [equal], [ones], to=7))
    model.graph.node.insert(place, helper.make_node("Equal", [mask, mask], [equal]))
    masked.input[0] = ones


def first_of_each_pair(model):
    """The first of two vectors, where their mean is read."""
    body = function(model, "connector")
    through(body, node(body, "Reshape", 1).output[0], "Slice", [0], [1], [2])


def pairs_one_vector_later(model):
    """Pairs that begin with the second vector."""
    body = function(model, "connector")
    through(body, body.input[0], "Slice", [1], [2**31], [1])
    joined = node(body, "Reshape")
    padded = f"{joined.input[0]}.padded"
    place = list(body.node).index(joined)
    names = [f"{padded}.{part}" for part in ("first", "end", "axis")]
    last = f"{padded}.last"
    body.node.insert(place, helper.make_node("Concat", [joined.input[0], last], [padded], axis=1))
    body.node.insert(place, helper.make_node("Slice", [joined.input[0], *names], [last]))
    for name, number in zip(names, (-1, 2**31, 1), strict=True):
        body.node.insert(place, helper.make_node("Constant", [], [name], value_ints=[number]))
    joined.input[0] = padded


def unnormed_pairs(model):
    """Means that are projected without a norm."""
    body = function(model, "connector")
    drop(next(one for one in body.node if one.op_type.startswith("norm")))


def projector_without_bias(model):
    """A projection without its bias."""
    body = function(model, "connector")
    projection = next(one for one in body.node if one.name == "project")
    zeros = f"{projection.input[2]}.zeros"
    place = list(body.node).index(projection)
    body.node.insert(place, helper.make_node("Sub", [projection.input[2]] * 2, [zeros]))
    projection.input[2] = zeros


def half_a_pair_counted(model):
    """A vector for the last one of an odd number too."""
    body = function(model, "real_vectors")
    set_constant(next(one for one in body.node if one.output[0] == "first"), [0])


def vectors_of_padding(model):
    """All vectors of a sound, padding included."""
    body = function(model, "real_vectors")
    real = node(body, "Greater")
    become(real, "Equal", real.input[0], real.input[0])


def masks_exchanged(model):
    """The lengths of sounds in reverse order."""
    through(model.graph, model.graph.input[1].name, "Slice", [-1], [-(2**31)], [0], [-1])


def linear_projector(model):
    """Two projections without the activation between them."""
    drop(next(one for one in function(model, "connector").node if "wide" in one.output))
