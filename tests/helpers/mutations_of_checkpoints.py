"""Mutations for some checkpoints of a family, and for families that no library has."""

from onnx import helper

from helpers.graph_edits import blocks, drop, function, node, set_attribute, swap_inputs, through


def last_layer_alone(model):
    """The last layer's output instead of the weighted sum of all."""
    summed = node(model.graph, "layer_sum")
    drop(summed, -2)


def shares_as_stored(model):
    """Layer weights that are not normalised to a sum of 1."""
    shares = node(function(model, "layer_sum"), "Softmax")
    drop(shares)


def next_layer_s_share(model):
    """Every layer weighted by the next one's weight."""
    body = function(model, "layer_sum")
    count = len(body.input) - 1  # stored with the weights
    through(body, "shares", "Gather", [*range(1, count), 0], axis=0)


def sum_over_time(model):
    """The sum over time instead of the mean."""
    mean = node(function(model, "pick"), "Div")
    drop(mean)


def drop_projection_bias(model):
    """Vectors projected without the bias."""
    through(model.graph, "head.narrow.bias", "Mul", 0.0)


def keys_as_projected(model):
    """Keys without their norm."""
    norm = node(function(model, "attention"), "norm", 1)
    assert norm.input[1] == "k_norm_weight"
    drop(norm)


def drop_second_norm(model):
    """No second norm after attention's residual."""
    norm = node(function(model, "encoder_block"), "norm", 1)
    assert norm.input[1] == "attention_post_norm_weight"
    drop(norm)


def drop_second_residual(model):
    """The second norm after attention without the residual."""
    again = node(function(model, "encoder_block"), "Add", 1)
    drop(again, 1)


def shares_of_chosen(model):
    """Routing weights of the selected experts renormalised."""
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
    """No bias after the sum of the experts."""
    last = node(function(model, "experts"), "Add")
    assert last.input[1] == "bias"
    drop(last)


def swap_plain_experts(model):
    """The first two experts exchanged."""
    for part in ("up", "down"):
        swap_inputs(blocks(model)[1], f".experts.0.{part}.weight", f".experts.1.{part}.weight")


def neighbours_turned(model):
    """Interleaved RoPE instead of rotated halves."""
    for turn in (node(function(model, "attention"), "RotaryEmbedding", place) for place in (0, 1)):
        set_attribute(turn, "interleaved", 1)
