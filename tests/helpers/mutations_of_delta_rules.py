"""Mutations of gated delta rules, and of attention whose output has a gate."""

from helpers.graph_edits import become, blocks, function, node, replace_input, through


def state_not_carried(model):
    """A rule that begins each step with nothing before it."""
    body = function(model, "delta_rule")
    through(body, body.input[5], "Mul", 0.0)


def padding_replaces(model):
    """Padding whose keys replace what is there."""
    _without_mask(model, 2)


def padding_decays(model):
    """Padding that decays states."""
    _without_mask(model, 4)


def padding_convolved(model):
    """Padding on the left among the inputs of the convolution."""
    _without_mask(model, 0)


def _without_mask(model, place):
    """The numbers of padding at a product of a rule's layer, which is 0 there."""
    body = function(model, "gated_delta")
    masked = node(body, "Mul", place)
    assert body.input[3] in masked.input  # real
    become(masked, "Identity", masked.input[0])


def other_layer_s_state(model):
    """The third layer reads the first one's state."""
    replace_input(blocks(model)[2], "past_recurrent.2", "past_recurrent.0")


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
    body = function(model, "delta_rule")
    weights = next(one for one in body.node if "weights" in one.output)
    through(body, weights.output[0], "Mul", 0.0)


def keys_of_any_length(model):
    """Queries and keys that are not normalised."""
    quotient = node(function(model, "normalised"), "Div", -1)
    become(quotient, "Identity", quotient.input[0])


def queries_unscaled(model):
    """Queries of length 1."""
    scaled = node(function(model, "gated_delta"), "Mul", 5)
    become(scaled, "Identity", scaled.input[0])


def ungated(model):
    """Outputs of a rule without their gate."""
    body = function(model, "gated_delta")
    gated = next(one for one in body.node if "gated" in one.output)
    become(gated, "Identity", gated.input[0])


def attention_ungated(model):
    """Attention without the gate of its output."""
    body = function(model, "cached_attention")
    sigmoid = node(body, "Sigmoid")
    gated = next(one for one in body.node if sigmoid.output[0] in one.input)
    become(gated, "Identity", gated.input[0])
