"""Mutations of words in their boxes: tables, coordinates, biases of places, patches, a flow of layout."""

import numpy as np
from onnx import numpy_helper

from helpers.graph_edits import (
    attribute,
    become,
    constant_value,
    drop,
    function,
    node,
    producer,
    replace_input,
    set_attribute,
    set_constant,
    swap_inputs,
    through,
)


def _edge(model, name):
    """The constant by which the tables read an edge of the boxes."""
    tables = function(model, "box_tables")
    return producer(tables, producer(tables, name).input[1])


def widths_for_heights(model):
    """The tables of widths and of heights exchanged."""
    [owner] = [one for one in model.functions if any(node.op_type == "box_tables" for node in one.node)]
    tables = node(owner, "box_tables")
    swap_inputs(tables, "width_weight", "height_weight")


def columns_for_rows(model):
    """The left edge for the top one, and the reverse."""
    left, top = _edge(model, "left"), _edge(model, "top")
    first, second = constant_value(left), constant_value(top)
    set_constant(left, second)
    set_constant(top, first)


def bottom_before_top(model):
    """The bottom edge for the top one, and the reverse; heights are as before."""
    tables = function(model, "box_tables")
    top, bottom = (next(one for one in tables.node if one.op_type == "Gather" and name in one.input[1:])
                   for name in ("top", "bottom"))  # fmt: skip
    replace_input(top, "top", "bottom")
    replace_input(bottom, "bottom", "top")


def right_for_left(model):
    """The right edge twice."""
    set_constant(_edge(model, "left"), constant_value(_edge(model, "right")))


def heights_of_the_page(model):
    """Bottom edges for heights."""
    drop(producer(function(model, "box_tables"), "high"))


def without_boxes(model):
    """Token embeddings without those of boxes."""
    embedding = function(model, "embedding")
    [box] = node(embedding, "box_tables").output
    added = next(one for one in embedding.node if one.op_type == "Add" and box in one.input)
    drop(added)


def without_bias(model):
    """Attention without biases of order and places."""
    scaled = node(function(model, "page_bias"), "Mul", -1)
    become(scaled, "Sub", scaled.input[0], scaled.input[0])


def without_places(model):
    """Biases of order alone."""
    bias = function(model, "page_bias")
    for _ in range(2):
        drop(node(bias, "Add"))


def bias_of_tops(model):
    """The bias of bottom edges, of top ones."""
    bias = function(model, "page_bias")
    set_constant(producer(bias, producer(bias, "bottom_edge").input[1]), 1)


def bias_unscaled(model):
    """Biases that are not divided by the square root of a head's size."""
    drop(node(function(model, "page_bias"), "Mul", -1))


def patches_one_place_later(model):
    """The boxes of patches, each that of the one before it."""
    body = function(model, "with_patches")
    numbers = producer(body, producer(body, "fixed").input[0])
    moved = np.roll(numpy_helper.to_array(attribute(numbers, "value")), 1, axis=0)
    set_attribute(numbers, "value", numpy_helper.from_array(moved))


def patches_counted_on(model):
    """Patches that are counted from 7 on, and not from 0."""
    through(function(model, "with_patches"), "counted", "Add", 7)


def patches_hidden(model):
    """Patches that no token attends to."""
    body = function(model, "with_patches")
    through(body, "ones", "Mul", 0)


def page_without_its_norm(model):
    """Words and patches that are not normalised together."""
    drop(node(function(model, "page_image"), "norm", -1))


def words_behind_patches(model):
    """Patches before the words."""
    joined = producer(function(model, "page_image"), "joined")
    joined.input[:] = reversed(joined.input)


def layout_unscaled(model):
    """Scores of layout divided by the square root of the words' head size."""
    for name in ("layout_block", "last_layout_block"):
        drop(node(function(model, name), "Mul"))


def layout_without_positions(model):
    """Layout of the boxes alone."""
    drop(next(one for one in function(model, "layout_embedding").node if "placed" in one.output))


def layout_one_position_later(model):
    """Positions of layout as of the tokens after them."""
    offset = next(one for one in function(model, "layout_embedding").node if one.op_type == "Constant")
    set_constant(offset, constant_value(offset) - 1)


def layout_unmoved(model):
    """The last layer reads the layout that the first one reads."""
    first, last = (node(model.graph, name) for name in ("layout_block", "last_layout_block"))
    replace_input(last, first.output[1], first.input[1])


def layout_keys_for_queries(model):
    """Queries and keys of layout exchanged in the last layer."""
    last = node(model.graph, "last_layout_block")
    for part in ("weight", "bias"):
        swap_inputs(last, f"layout.attention.q.{part}", f"layout.attention.k.{part}")
