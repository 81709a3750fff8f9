"""Mutations of states that layers keep between steps, and of short convolutions."""

from helpers.graph_edits import drop, drop_mask, function, node, other_state, producer, through


def state_not_carried(model):
    """A convolution that begins each step with nothing before it."""
    through(function(model, "causal_convolution"), "past", "Mul", 0.0)


def state_one_place_off(model):
    """States without a row's last token."""
    body = function(model, "last_inputs")
    through(body, "steps", "Sub", 1)


def state_of_padding(model):
    """States that end with the batch's last place, padding or not."""
    body = function(model, "last_inputs")
    ends = node(body, "Unsqueeze").output[0]
    through(body, ends, "Mul", 0)
    through(body, f"{ends}.changed", "Add", -3)


def padding_convolved(model):
    """Padding among the inputs of a convolution."""
    drop_mask(function(model, "short_convolution"), 1, 2)


def other_layer_s_state(model):
    """The third layer reads the first one's state."""
    other_state(model, "conv")


def gates_exchanged(model):
    """The gate of inputs for that of outputs."""
    thirds = node(function(model, "short_convolution"), "Split")
    before, after, inner = thirds.output
    thirds.output[:] = [after, before, inner]


def ungated(model):
    """Outputs of a convolution without their gate."""
    gate = node(function(model, "short_convolution"), "Mul", -1)
    drop(gate, 1)


def heads_ungated(model):
    """Heads without a gate."""
    drop(_gate_of_heads(model))


def gates_of_other_heads(model):
    """Each head with the next one's gate."""
    body = function(model, "cached_attention")
    gates = producer(body, _gate_of_heads(model).input[1]).input[0]  # (B, S, N)
    through(body, gates, "Gather", [1, 2, 3, 4, 5, 0], axis=2)


def _gate_of_heads(model):
    """The product of heads and their gates."""
    body = function(model, "cached_attention")
    products = [one for one in body.node if one.op_type == "Mul"]
    return next(one for one in products if producer(body, one.input[1]).op_type == "Unsqueeze")


def taps_in_reverse(model):
    """A kernel that weighs the oldest token as the newest."""
    taps = node(function(model, "causal_convolution"), "Split")
    taps.output[:] = reversed(taps.output)
