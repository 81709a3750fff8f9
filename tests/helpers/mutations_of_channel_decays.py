"""Mutations of delta rules that decay channels apart."""

from helpers.graph_edits import drop, drop_mask, function, node, producer, through


def state_not_carried(model):
    """A rule that begins each step with nothing before it."""
    body = function(model, "channel_delta_rule")
    through(body, body.input[5], "Mul", 0.0)


def padding_convolved(model):
    """Padding on the left among the inputs of the convolution."""
    drop_mask(function(model, "kimi_delta"), 0, 3)


def padding_replaces(model):
    """Padding whose keys replace what is there."""
    drop_mask(function(model, "kimi_delta"), 2, 3)


def padding_decays(model):
    """Padding that decays states."""
    drop_mask(function(model, "kimi_delta"), 3, 3)


def decay_of_a_head(model):
    """All channels of a head decay as the mean of them."""
    through(function(model, "kimi_delta"), "decay", "ReduceMean", [3])


def decay_within_chunks_ignored(model):
    """Tokens of a chunk that read each other undecayed."""
    drop(node(function(model, "products"), "Mul", 1))


def later_tokens_written_undecayed(model):
    """Tokens written to the state without the decay until the end of their chunk."""
    body = function(model, "by_chunks")
    sums = node(body, "after")
    through(body, sums.output[0], "Mul", 0.0)


def added_rather_than_replaced(model):
    """Values that are added to what a key finds before a chunk."""
    body = function(model, "by_chunks")
    through(body, producer(body, "weights").output[0], "Mul", 0.0)


def token_of_one_decay(model):
    """A step that decays all channels of a head as the mean of them."""
    through(function(model, "one_token"), "shares", "ReduceMean", [2])


def ungated(model):
    """Outputs of a rule without their gate."""
    drop(producer(function(model, "kimi_delta"), "gated"))


def gates_of_any_size(model):
    """Gates without their sigmoid."""
    drop(producer(function(model, "kimi_delta"), "gate"))


def steps_undecided(model):
    """Decays that tokens do not choose."""
    body = function(model, "kimi_delta")
    [steps] = [one for one in body.node if one.op_type == "Add"]
    drop(steps, 1)


def latents_without_norm(model):
    """Latents cached without their norm, whose epsilon is not that of other norms."""
    body = function(model, "cached_latent_attention")
    drop(next(one for one in body.node if one.op_type.startswith("norm")))
