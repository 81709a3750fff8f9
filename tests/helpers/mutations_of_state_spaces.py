"""Mutations of state spaces."""

from helpers.graph_edits import (
    become,
    blocks,
    constant_value,
    function,
    node,
    replace_input,
    set_constant,
    through,
)


def state_not_carried(model):
    """A state space that begins each step with nothing before it."""
    body = function(model, "state_space")
    through(body, body.input[5], "Mul", 0.0)


def padding_in_a_state(model):
    """Padding that decays states, and adds to them."""
    body = function(model, "mamba2")
    steps = node(body, "Mul", 2)
    assert body.input[3] in steps.input  # real
    become(steps, "Identity", steps.input[0])


def padding_convolved(model):
    """Padding among the inputs of a convolution."""
    body = function(model, "mamba2")
    inputs = node(body, "Mul")
    assert body.input[3] in inputs.input  # real
    become(inputs, "Identity", inputs.input[0])


def other_layer_s_state(model):
    """The third layer reads the first one's state."""
    replace_input(blocks(model)[2], "past_ssm.2", "past_ssm.0")


def decay_ignored(model):
    """States that forget nothing."""
    body = function(model, "state_space")
    through(body, body.input[4], "Mul", 0.0)


def decayed_by_its_own_token(model):
    """A token's own decay among those of what it adds."""
    replace_input(node(function(model, "decays"), "Mul"), "later", "upper")


def state_read_undecayed(model):
    """The state before a chunk, as its tokens read it, without their decays."""
    body = function(model, "state_space")
    far = next(one for one in body.node if "far" in one.output)
    become(far, "Identity", far.input[0])


def inputs_of_one_step(model):
    """Inputs that do not depend on the steps."""
    body = function(model, "state_space")
    written = next(one for one in body.node if "written" in one.output)
    become(written, "Identity", written.input[0])


def groups_shifted(model):
    """Heads that read and write by the vectors of another group."""
    body = function(model, "state_space")
    shared = node(body, "Gather").input[1]
    indices = next(one for one in body.node if shared in one.output)
    set_constant(indices, constant_value(indices)[::-1])


def skip_left_out(model):
    """Outputs without the inputs beside the states."""
    body = function(model, "mamba2")
    total = node(body, "Add", 1)
    become(total, "Identity", total.input[0])


def ungated(model):
    """Outputs without their gate."""
    body = function(model, "mamba2")
    gated = next(one for one in body.node if "gated" in one.output)
    become(gated, "Identity", gated.input[0])
