"""Mutations of layers that share keys, read inputs of their own, or have experts beside a network."""

from helpers.graph_edits import (
    blocks,
    constant_value,
    drop,
    function,
    node,
    producer,
    replace_input,
    set_constant,
    through,
)


def keys_of_another_layer(model):
    """A layer that reads the keys of the first layer of its kind, not of the last."""
    block = blocks(model)[4]
    replace_input(block, "present.2.key", "present.0.key")


def values_of_another_layer(model):
    """A layer that reads the values of the first layer of its kind, not of the last."""
    block = blocks(model)[4]
    replace_input(block, "present.2.value", "present.0.value")


def queries_not_turned(model):
    """RoPE on keys alone, where another layer's are read."""
    drop(node(function(model, "shared_attention"), "RotaryEmbedding"))


def queries_unnormed(model):
    """Queries without their norm, where another layer's keys are read."""
    drop(node(function(model, "shared_attention"), "norm"))


def values_unnormed(model):
    """Values without their norm."""
    drop(node(function(model, "cached_attention"), "norm", 2))


def values_of_normed_keys(model):
    """Values made of keys behind their norm, not before it."""
    body = function(model, "cached_attention")
    value = node(body, "norm", 2)
    replace_input(value, value.input[0], node(body, "norm", 1).output[0])


def full_heads_turned(model):
    """A rotation of all pairs of a head, where only the first ones turn."""
    for body in [one for one in model.functions if one.name.startswith("rotation")]:
        frequencies = node(body, "Constant")
        values = constant_value(frequencies)
        set_constant(frequencies, [value or values[0] for value in values])


def input_of_the_next_layer(model):
    """The first layer reads the second one's input."""
    index = producer(model.graph, node(model.graph, "Gather").input[1])
    assert constant_value(index) == 0
    set_constant(index, 1)


def entries_unscaled(model):
    """Entries of the table of layers' inputs that are not multiplied by the root of their size."""
    drop(node(function(model, "layer_inputs"), "Mul"))


def projection_unnormed(model):
    """Projected tokens without their norm among layers' inputs."""
    drop(node(function(model, "layer_inputs"), "norm"))


def sum_of_inputs(model):
    """The sum of both parts of layers' inputs, not divided by the root of two."""
    drop(node(function(model, "layer_inputs"), "Mul", 2))


def input_ignored(model):
    """A gate that multiplies nothing of a layer's own."""
    drop(node(function(model, "layer_input"), "Mul"))


def input_unnormed(model):
    """A layer's own part without its norm."""
    drop(node(function(model, "layer_input"), "norm"))


def output_unscaled(model):
    """Layers whose output is not multiplied by their number."""
    drop(node(function(model, "decoder_block"), "Mul"))


def experts_unscaled(model):
    """Experts without the numbers that multiply their weights."""
    drop(node(function(model, "router"), "Mul"))


def router_reads_the_network_s_input(model):
    """A router that scores what the network reads."""
    body = function(model, "dense_and_experts")
    scored = next(one for one in body.node if one.name == "router_norm")
    replace_input(scored, body.input[0], body.input[1])


def router_unscaled(model):
    """A router whose input is not divided by the root of its width."""
    drop(next(one for one in function(model, "dense_and_experts").node if one.name == "scored"))


def network_left_out(model):
    """Experts without the network beside them."""
    body = function(model, "dense_and_experts")
    total = body.node[-1]
    through(body, total.input[0], "Mul", 0.0)


def experts_unnormed(model):
    """The output of experts without its norm."""
    body = function(model, "dense_and_experts")
    drop(next(one for one in body.node if one.name == "experts_post_norm"))


def network_reads_residual(model):
    """A network that reads the residual without the norm in front."""
    drop(next(one for one in function(model, "decoder_block").node if one.name == "feed_forward_norm"))
