"""Mutations of gated linear recurrences."""

from helpers.graph_edits import (
    become,
    blocks,
    constant,
    drop,
    drop_mask,
    function,
    node,
    producer,
    replace_input,
    set_constant,
    through,
)


def state_not_carried(model):
    """A recurrence that begins each step with nothing before it."""
    body = function(model, "linear_recurrence")
    through(body, body.input[2], "Mul", 0.0)


def step_not_carried(model):
    """Steps of one token that begin with nothing before it."""
    body = function(model, "one_token")
    through(body, body.input[2], "Mul", 0.0)


def other_layer_s_state(model):
    """The second layer reads the first one's state."""
    replace_input(blocks(model)[1], "past_recurrent.1", "past_recurrent.0")


def padding_decays(model):
    """Padding that decays states."""
    drop_mask(function(model, "decays"), 2, 2)


def padding_added(model):
    """Padding that adds to states."""
    body = function(model, "rg_lru")
    drop(producer(body, "added"))


def padding_convolved(model):
    """Padding among the inputs of a convolution."""
    drop_mask(function(model, "rg_lru"), 0, 3)


def no_first_token(model):
    """The first token of a row is added by the scale of the others."""
    drop(node(function(model, "decays"), "Where"), 2)


def every_piece_begins(model):
    """The first token of each step is added as that of its row."""
    body = function(model, "first_slots")
    slots = node(body, "Equal").input[0]
    through(body, slots, "Mul", [0])


def second_token_first(model):
    """The second token of a row is taken for the first."""
    body = function(model, "first_slots")
    set_constant(constant(body, 0), 1)


def added_unscaled(model):
    """Inputs that are added without their scale."""
    drop(producer(function(model, "rg_lru"), "scaled"))


def scale_of_a_decay_alone(model):
    """A scale of the decay in place of its square."""
    body = function(model, "decays")
    doubled = next(one for one in body.node if one.op_type == "Exp" and "decay" not in one.output)
    drop(producer(body, doubled.input[0]), 1)


def inputs_ungated(model):
    """Inputs without their gate."""
    become(producer(function(model, "rg_lru"), "added"), "Mul", "convolution.y", "real")


def gates_exchanged(model):
    """The gate of inputs for that of decays."""
    body = function(model, "rg_lru")
    one, other = (one for one in body.node if one.op_type == "in_groups")
    one.output[0], other.output[0] = other.output[0], one.output[0]
    body.node.remove(other)
    body.node.insert(list(body.node).index(one), other)


def slower_decays(model):
    """Decays with a factor of 4 in place of 8."""
    set_constant(constant(function(model, "decays"), -8.0), -4.0)


def output_ungated(model):
    """Outputs of a recurrence without their gate."""
    drop(producer(function(model, "rg_lru"), "gated"))


def gate_not_activated(model):
    """A gate of outputs without its activation."""
    drop(producer(function(model, "rg_lru"), "activated"))


def second_token_of_a_mask(model):
    """The second token of a row is taken for the first, by its mask."""
    body = function(model, "first_tokens")
    set_constant(producer(body, node(body, "Equal").input[1]), 2)
