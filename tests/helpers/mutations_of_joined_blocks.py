"""Mutations of layers that join embeddings to the hidden states, and share their blocks."""

from helpers.graph_edits import blocks, drop, function, node, producer, replace_input, through


def embeddings_left_out(model):
    """Attention that reads the hidden states twice, and no embeddings."""
    joined = producer(function(model, "joined_block"), "joined")
    joined.input[1] = joined.input[0]


def joined_in_reverse(model):
    """Embeddings before the hidden states."""
    joined = producer(function(model, "joined_block"), "joined")
    joined.input[:] = reversed(joined.input)


def shared_block_left_out(model):
    """State spaces that read the hidden states alone."""
    drop(producer(function(model, "joined_block"), "total"))


def residual_of_the_block(model):
    """A residual of what the state space reads."""
    body = function(model, "joined_block")
    total = producer(body, "total")
    replace_input(node(body, "Add", -1), total.input[0], total.output[0])


def network_without_norm(model):
    """A network that reads what attention gives, as it is."""
    drop(node(function(model, "joined_block"), "norm", 1))


def adapters_left_out(model):
    """Projections without their adapters."""
    total = node(function(model, "with_adapter"), "Add")
    drop(total)


def adapters_twice(model):
    """Adapters times two."""
    body = function(model, "with_adapter")
    through(body, node(body, "Add").input[1], "Mul", 2.0)


def adapter_of_another_use(model):
    """The second use of a block with the adapter of its first."""
    ours, other = (f"decoder.layers.{layer}.feed_forward.gate.adapter_up.weight" for layer in (3, 1))
    replace_input(blocks(model)[3], ours, other)


def another_block(model):
    """A use of the second block with a projection of the first."""
    ours, other = (f"decoder.layers.{layer}.feed_forward.down.weight" for layer in (2, 1))
    replace_input(blocks(model)[2], ours, other)


def keys_of_the_first_use(model):
    """The second use of a block with the keys of its first."""
    replace_input(blocks(model)[3], "past_key_values.3.key", "past_key_values.1.key")
