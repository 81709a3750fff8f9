"""Mutations of gated delta rules, and of attention whose output has a gate."""

from helpers.graph_edits import become, drop, drop_mask, function, node, other_state, producer, through


def state_not_carried(model):
    """A rule that begins each step with nothing before it."""
    body = function(model, "delta_rule")
    through(body, body.input[5], "Mul", 0.0)


def padding_replaces(model):
    """Padding whose keys replace what is there."""
    drop_mask(function(model, "gated_delta"), 2, 3)


def padding_decays(model):
    """Padding that decays states."""
    drop_mask(function(model, "gated_delta"), 4, 3)


def padding_convolved(model):
    """Padding on the left among the inputs of the convolution."""
    drop_mask(function(model, "gated_delta"), 0, 3)


def other_layer_s_state(model):
    """The third layer reads the first one's state."""
    other_state(model, "recurrent")


def decay_ignored(model):
    """States that forget nothing."""
    body = function(model, "delta_rule")
    through(body, body.input[3], "Mul", 0.0)


def corrections_left_out(model):
    """Tokens of a chunk that do not see what the others have replaced."""
    body = function(model, "inverted")
    last = node(body, "Sub", -1)
    become(last, "Identity", node(body, "Sub").input[0])


def added_rather_than_replaced(model):
    """Values that are added to what a key finds before a chunk."""
    body = function(model, "by_chunks")
    weights = producer(body, "weights")
    through(body, weights.output[0], "Mul", 0.0)


def token_added_rather_than_replaced(model):
    """A value that is added to what a step's key finds."""
    body = function(model, "one_token")
    drop(node(body, "Sub"))


def keys_of_any_length(model):
    """Queries and keys that are not normalised."""
    quotient = node(function(model, "normalised"), "Div", -1)
    drop(quotient)


def queries_unscaled(model):
    """Queries of length 1."""
    scaled = node(function(model, "gated_delta"), "Mul", 5)
    drop(scaled)


def ungated(model):
    """Outputs of a rule without their gate."""
    body = function(model, "gated_delta")
    drop(producer(body, "gated"))


def attention_ungated(model):
    """Attention without the gate of its output."""
    body = function(model, "cached_attention")
    sigmoid = node(body, "Sigmoid")
    gated = next(one for one in body.node if sigmoid.output[0] in one.input)
    drop(gated)


def plain_beta(model):
    """Beta up to 1, which leaves a half of what a key may take."""
    drop(producer(function(model, "gated_delta"), "twice"), 1)


def norms_before_delta_rules_left_out(model):
    """Delta rules that read the layer's input without its norm."""
    drop(node(function(model, "stateful_block"), "norm"))


def norms_behind_attention_left_out(model):
    """The output of attention added without its norm."""
    drop(node(function(model, "decoder_block"), "norm"))
