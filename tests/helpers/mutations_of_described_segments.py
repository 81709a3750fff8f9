"""Mutations of segments that texts describe: the layers that are read, their text, the map of pixels."""

import onnx
from onnx import helper

from helpers.graph_edits import (
    attribute,
    drop,
    function,
    named,
    node,
    producer,
    set_attribute,
    through,
)


def _states(model: onnx.ModelProto) -> tuple[onnx.NodeProto, int]:
    """The node that narrows the outputs of layers, which are its first inputs, and their number."""
    body = function(model, "narrow_states")
    return named(model, "states"), sum(name.startswith("states_") for name in body.input)


def first_layer_first(model):
    """Layers in the order of config.json."""
    states, count = _states(model)
    states.input[:count] = reversed(states.input[:count])


def one_layer_earlier(model):
    """The inputs of layers in place of their outputs."""
    states, count = _states(model)
    for place, name in enumerate(states.input[:count]):
        states.input[place] = producer(model.graph, name).input[0]


def nearest_positions(model):
    """Positions that are not interpolated, each that of the nearest patch."""
    set_attribute(node(function(model, "interpolation"), "Resize"), "mode", "nearest")


def scale_for_shift(model):
    """The scale and the shift of a text exchanged."""
    body = function(model, "film")
    scale, shift = node(body, "linear_bias"), node(body, "linear_bias", 1)
    scale.output[0], shift.output[0] = shift.output[0], scale.output[0]


def without_shift(model):
    """Vectors that a text scales alone."""
    drop(node(function(model, "film"), "Add"))


def text_one_layer_later(model):
    """The text behind the sum with the next layer's vectors."""
    body = function(model, "segment_decoder")
    conditioned = node(body, "film")
    later = next(one for one in list(body.node)[list(body.node).index(conditioned) :] if one.op_type == "Add")
    behind = onnx.NodeProto()
    behind.CopyFrom(conditioned)
    drop(conditioned)
    behind.name = behind.output[0] = "conditioned_later"
    behind.input[0] = later.output[0]
    for reader in body.node:
        reader.input[:] = [behind.output[0] if name == later.output[0] else name for name in reader.input]
    body.node.insert(list(body.node).index(later) + 1, behind)


def without_class_token(model):
    """The class token in the map, in place of the last patch."""
    body = function(model, "square")
    cut = node(body, "Slice")
    body.node.insert(0, helper.make_node("Constant", [], ["first"], value_ints=[0]))
    body.node.insert(1, helper.make_node("Constant", [], ["last"], value_ints=[-1]))
    cut = node(body, "Slice")
    cut.input[1], cut.input[2] = "first", "last"


def columns_for_rows(model):
    """A map of columns of patches in place of rows."""
    body = function(model, "square")
    grid = node(body, "Reshape")
    flat = grid.output[0]
    grid.output[0] = "turned"
    body.node.append(helper.make_node("Transpose", ["turned"], [flat], perm=[0, 1, 3, 2]))


def linear_network(model):
    """Layers of the decoder without their ReLU."""
    drop(node(function(model, "relu"), "Relu"))


def residuals_without_norms(model):
    """Layers of the decoder whose attention has no norm."""
    drop(node(function(model, "encoder_block"), "norm"))


def pairs_by_text(model):
    """Texts in the order of images, so that an image meets another text."""
    body = function(model, "each_pair")
    repeated = node(body, "Unsqueeze", 1)
    wide = next(one for one in body.node if one.op_type == "Expand" and one.input[0] == repeated.output[0])
    through(body, wide.output[0], "Transpose", perm=[1, 0, 2])


def linear_map(model):
    """A map that is convolved without a ReLU."""
    drop(node(function(model, "described_pixels"), "Relu"))


def linear_pixels(model):
    """Transposed convolutions without a ReLU between them."""
    drop(node(function(model, "described_pixels"), "Relu", 1))


def shifted_map(model):
    """A convolution whose zeros lie on two sides alone."""
    convolution = node(function(model, "described_pixels"), "Conv")
    assert attribute(convolution, "pads") == [1, 1, 1, 1]
    set_attribute(convolution, "pads", [2, 2, 0, 0])


def turned_pixels(model):
    """Rows and columns of the pixels exchanged."""
    body = function(model, "described_pixels")
    result = node(body, "Squeeze")
    flat = result.output[0]
    result.output[0] = "turned"
    body.node.append(helper.make_node("Transpose", ["turned"], [flat], perm=[0, 2, 1]))
