"""Mutations of state spaces."""

from helpers.graph_edits import (
    constant_value,
    drop,
    drop_mask,
    function,
    node,
    other_state,
    producer,
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
    drop_mask(function(model, "mamba2"), 2, 3)


def padding_convolved(model):
    """Padding among the inputs of a convolution."""
    drop_mask(function(model, "mamba2"), 0, 3)


def other_layer_s_state(model):
    """The third layer reads the first one's state."""
    other_state(model, "ssm")


def decay_ignored(model):
    """States that forget nothing."""
    body = function(model, "state_space")
    through(body, body.input[4], "Mul", 0.0)


def decayed_by_its_own_token(model):
    """A token's own decay among those of what it adds."""
    replace_input(node(function(model, "decays"), "Mul"), "later", "upper")


def state_read_undecayed(model):
    """The state before a chunk, as its tokens read it, without their decays."""
    body = function(model, "by_chunks")
    far = producer(body, "far")
    drop(far)


def inputs_of_one_step(model):
    """Inputs that do not depend on the steps."""
    body = function(model, "by_chunks")
    written = producer(body, "written")
    drop(written)


def token_beside_an_undecayed_state(model):
    """A step that adds to a state without decaying it."""
    body = function(model, "one_token")
    drop(node(body, "Mul", 1))


def groups_shifted(model):
    """Heads that read and write by the vectors of another group."""
    body = function(model, "by_chunks")
    shared = node(body, "Gather").input[1]
    indices = producer(body, shared)
    set_constant(indices, constant_value(indices)[::-1])


def skip_left_out(model):
    """Outputs without the inputs beside the states."""
    body = function(model, "mamba2")
    total = node(body, "Add", 1)
    drop(total)


def ungated(model):
    """Outputs without their gate."""
    body = function(model, "mamba2")
    gated = producer(body, "gated")
    drop(gated)


def residual_left_out(model):
    """Layers of one sublayer without their residual."""
    body = function(model, "stateful_block")
    drop(node(body, "Add", -1), 1)


def attention_left_out(model):
    """State spaces without the attention beside them."""
    drop(_both(model), 1)


def space_left_out(model):
    """Attention without the state spaces beside it."""
    drop(_both(model), 0)


def one_behind_the_other(model):
    """State spaces that read the output of attention beside them."""
    body = function(model, "hybrid_block")
    space = node(body, "mamba2")
    replace_input(space, space.input[0], _both(model).input[0])


def other_multiplier(model):
    """The output of state spaces times a number."""
    through(function(model, "hybrid_block"), _both(model).input[1], "Mul", 1.25)


def _both(model):
    """The sum of what attention and state spaces give."""
    return producer(function(model, "hybrid_block"), "both")


def scan_not_carried(model):
    """A selective scan that begins each step with nothing before it."""
    body = function(model, "selective_scan")
    through(body, body.input[5], "Mul", 0.0)


def scan_of_no_decay(model):
    """Channels that forget nothing."""
    body = function(model, "mamba")
    through(body, node(body, "Neg").output[0], "Mul", 0.0)


def scan_of_one_step(model):
    """Inputs that do not depend on the steps."""
    drop(producer(function(model, "mamba"), "written"))


def scan_in_reverse(model):
    """Channels read along the vector that writes them."""
    body = function(model, "selective_scan")
    scan = node(body, "Scan")
    scan.input[4] = scan.input[3]


def rows_of_padding_decay(model):
    """Padding that decays channels, and adds to them."""
    drop_mask(function(model, "mamba"), 2, 3)


def selected_exchanged(model):
    """The vectors that write and read, one for the other."""
    parts = node(function(model, "mamba"), "Split", 1)
    steps, b, c = parts.output
    parts.output[:] = [steps, c, b]


def inputs_not_skipped(model):
    """Outputs without the inputs beside the states."""
    drop(node(function(model, "mamba"), "Add"))


def selected_without_norm(model):
    """The vector that writes, as it is selected."""
    drop(node(function(model, "mamba"), "RMSNormalization", 1))


def selected_without_scale(model):
    """The vector that writes, as it is selected, without its norm and scale."""
    drop(node(function(model, "mamba"), "norm", 1))


def ungated_channels(model):
    """Outputs without their gate."""
    drop(producer(function(model, "mamba"), "gated"))
