"""Mutations of what only some checkpoints of a family have, and of families that no library has."""

from onnx import helper

from helpers.graph_edits import become, blocks, function, node, set_attribute, swap_inputs, through


def last_layer_alone(model):
    """What the last layer gives, in place of the sum of all."""
    summed = node(model.graph, "layer_sum")
    become(summed, "Identity", summed.input[-2])


def shares_as_stored(model):
    """Shares of layers that do not add up to 1."""
    shares = node(function(model, "layer_sum"), "Softmax")
    become(shares, "Identity", shares.input[0])


def next_layer_s_share(model):
    """Every layer by the share of the next one."""
    body = function(model, "layer_sum")
    count = len(body.input) - 1  # beside the weights
    through(body, "shares", "Gather", [*range(1, count), 0], axis=0)


def sum_over_time(model):
    """The sum of all moments' vectors for their mean."""
    mean = node(function(model, "pick"), "Div")
    become(mean, "Identity", mean.input[0])


def drop_projection_bias(model):
    """Vectors projected without the bias."""
    through(model.graph, "head.narrow.bias", "Mul", 0.0)


def keys_as_projected(model):
    """Keys that are not normalised."""
    norm = node(function(model, "attention"), "norm", 1)
    assert norm.input[1] == "k_norm_weight"
    become(norm, "Identity", norm.input[0])


def drop_second_norm(model):
    """What attention gives and what it read, added and not normalised once more."""
    norm = node(function(model, "encoder_block"), "norm", 1)
    assert norm.input[1] == "attention_post_norm_weight"
    become(norm, "Identity", norm.input[0])


def drop_second_residual(model):
    """The norm behind attention without what attention read."""
    again = node(function(model, "encoder_block"), "Add", 1)
    become(again, "Identity", again.input[1])


def shares_of_chosen(model):
    """The chosen experts' shares, which add up to 1."""
    body = function(model, "router")
    best = node(body, "TopK")
    share = best.output[0]
    best.output[0] = "own"
    body.node.extend(
        [
            helper.make_node("Constant", [], ["last"], value_ints=[1]),
            helper.make_node("ReduceSum", ["own", "last"], ["all"]),
            helper.make_node("Div", ["own", "all"], [share]),
        ]
    )


def drop_bias_of_experts(model):
    """What experts give without the bias behind their sum."""
    last = node(function(model, "experts"), "Add")
    assert last.input[1] == "bias"
    become(last, "Identity", last.input[0])


def swap_plain_experts(model):
    """The first two experts, each for the other."""
    for part in ("up", "down"):
        swap_inputs(blocks(model)[1], f".experts.0.{part}.weight", f".experts.1.{part}.weight")


def neighbours_turned(model):
    """Pairs of neighbours are turned, not halves."""
    for turn in (node(function(model, "attention"), "RotaryEmbedding", place) for place in (0, 1)):
        set_attribute(turn, "interleaved", 1)
