"""Mutations of decoders: several vectors of a token, low-rank residuals, sparse gates, growing queries."""

from helpers.graph_edits import (
    become,
    constant,
    constant_value,
    drop,
    function,
    node,
    producer,
    set_constant,
    through,
)


def named(body, name):
    """The node of that name."""
    return next(one for one in body.node if one.name == name)


def scores_unnormed(model):
    """Scores of a vector that is not normalised."""
    drop(node(function(model, "stream_router"), "norm"))


def scores_undivided(model):
    """Scores of a vector that is not divided by its width."""
    drop(named(function(model, "stream_router"), "normed"))


def scores_unbounded(model):
    """Scores without the hyperbolic tangent."""
    drop(node(function(model, "stream_router"), "Tanh"))


def weights_transposed(model):
    """The weight of a vector in another one for that of the other one in it."""
    through(function(model, "predicted_streams"), "weights", "Transpose", perm=[0, 1, 3, 2])


def mixture_alone(model):
    """Predicted vectors without those before."""
    drop(node(function(model, "predicted_streams"), "Add"))


def shares_from_nothing(model):
    """Shares of the difference that are not increased by 1."""
    drop(named(function(model, "corrected_streams"), "shares"))


def output_for_difference(model):
    """A correction by the layer's output, not by its difference from the prediction."""
    drop(named(function(model, "corrected_streams"), "difference"))


def differences_alone(model):
    """Corrected vectors without the predicted ones."""
    drop(node(function(model, "corrected_streams"), "Add", -1))


def gate_of_the_unscaled(model):
    """A layer's own input gated by the first vector without the learned one."""
    drop(named(function(model, "decoder_block"), "read"))


def input_left_out(model):
    """Other vectors without the layer's own input."""
    drop(node(function(model, "decoder_block"), "Add", -1))


def lengths_of_projections(model):
    """Projected vectors as long as they happen to be."""
    body = function(model, "as_long_as")
    final = node(body, "Div", -1)
    become(final, "Identity", body.input[0])


def first_alone(model):
    """The first vector behind all layers, and not the mean of all."""
    body = function(model, "merged_streams")
    drop(node(body, "Add"))
    drop(node(body, "Identity"))


def residual_left_out(model):
    """The sum behind attention without the residual of low rank."""
    drop(named(function(model, "decoder_block"), "augmented"))


def residual_unnormed(model):
    """A residual of low rank without its norm."""
    drop(node(function(model, "augmented_residual"), "norm"))


def residual_alone(model):
    """A residual of low rank without the vector itself."""
    drop(node(function(model, "augmented_residual"), "Add"), 1)


def sum_undivided(model):
    """The sum of attention and both residuals, not divided by the root of two."""
    body = function(model, "decoder_block")
    divided = next(one for one in body.node if "augmented" in one.input)
    drop(divided)


def gates_from_zero(model):
    """Gates that are cut off at nothing, but not below."""
    body = function(model, "beyond")
    final = node(body, "Relu")
    become(final, "Identity", body.input[0])


def gates_below_zero(model):
    """Gates that are shifted, but not cut off."""
    drop(node(function(model, "beyond"), "Relu"))


def cutoff_of_the_mean(model):
    """A cutoff at the mean, without the standard deviations."""
    drop(node(function(model, "beyond"), "Add"))


def variance_for_deviation(model):
    """A cutoff by the variance."""
    drop(node(function(model, "beyond"), "Sqrt"))


def other_row_for_unknown(model):
    """Another row of the table for ids beyond it."""
    body = function(model, "layer_inputs")
    set_constant(producer(body, named(body, "ids").input[2]), 1)


def fewer_in_the_table(model):
    """A table that ends earlier."""
    body = function(model, "layer_inputs")
    bound = producer(body, named(body, "known").input[1])
    assert constant(body, 271) is not None
    set_constant(bound, 200)


def queries_of_one_size(model):
    """Queries that do not grow."""
    drop(named(function(model, "cached_attention"), "grown"))


def latent_queries_of_one_size(model):
    """Queries of latents that do not grow."""
    drop(named(function(model, "cached_latent_attention"), "grown"))


def growth_at_every_position(model):
    """Queries that grow at every position, and not at multiples of a length."""
    drop(node(function(model, "query_growth"), "Div"))


def growth_one_earlier(model):
    """Queries that grow one position too early."""
    body = function(model, "query_growth")
    through(body, body.input[0], "Add", 1)


def growth_in_proportion(model):
    """Queries that grow in proportion, and not by the logarithm."""
    drop(node(function(model, "query_growth"), "Log"))


def ungated_heads(model):
    """The output of heads without the gate of each number."""
    body = function(model, "cached_attention")
    drop(next(one for one in body.node if "Sigmoid" in "".join(one.input) and one.op_type == "Mul"))


def words_unnormed(model):
    """Words without the norm before all layers."""
    drop(node(function(model, "embedding"), "norm"))


def turned_forward(model):
    """RoPE in the usual direction."""
    frequencies = node(function(model, "rotation"), "Constant")
    set_constant(frequencies, [-one for one in constant_value(frequencies)])


def norms_before_turns(model):
    """Queries that are not normalised after RoPE."""
    drop(node(function(model, "cached_attention"), "norm"))


def slope_not_positive(model):
    """xIELU's learned number as it is, without the softplus."""
    drop(node(function(model, "xielu"), "softplus"))


def slope_without_a_half(model):
    """xIELU's slope below zero without the half that it is at least."""
    drop(named(function(model, "xielu"), "slope"))


def line_left_out(model):
    """xIELU without half of its input."""
    drop(node(function(model, "xielu"), "Add", -1))


def exponent_alone(model):
    """xIELU below zero without the input that is taken from the exponent."""
    drop(named(function(model, "xielu"), "Sub"))
