"""Mutations of time mixing and channel mixing."""

import onnx

from helpers.graph_edits import (
    become,
    drop,
    drop_mask,
    function,
    node,
    other_state,
    producer,
    replace_input,
    set_attribute,
    starting,
    through,
)

KINDS = ("time_mix", "channel_mix")


def sums_not_carried(model):
    """Means that begin each step with nothing before it."""
    through(function(model, "wkv"), "denominator", "Mul", 0.0)


def numerator_not_carried(model):
    """Weights of past tokens without their values."""
    through(function(model, "wkv"), "numerator", "Mul", 0.0)


def maximum_not_carried(model):
    """Sums whose maximum is 0 in each step."""
    through(function(model, "wkv"), "maximum", "Mul", 0.0)


def time_shift_not_carried(model):
    """Time mixing whose first token of a step has none before it."""
    through(function(model, "time_mix"), "time_shift", "Mul", 0.0)


def channel_shift_not_carried(model):
    """Channel mixing whose first token of a step has none before it."""
    for body in _channel_mixes(model):
        through(body, "channel_shift", "Mul", 0.0)


def other_layer_s_maximum(model):
    """The third layer reads the first one's maximum."""
    other_state(model, "maximum")


def other_layer_s_denominator(model):
    """The third layer reads the first one's sum of weights."""
    other_state(model, "denominator")


def other_layer_s_last_token(model):
    """The third layer reads the first one's last token."""
    other_state(model, "channel_shift")


def last_tokens_exchanged(model):
    """Each sublayer with the other's last token."""
    for body in model.functions:
        if body.name.startswith("mixing_block"):
            mixing, feeding = (
                next(one for one in body.node if one.op_type.startswith(kind)) for kind in KINDS
            )
            replace_input(mixing, "time_shift", "channel_shift")
            replace_input(feeding, "channel_shift", "time_shift")


def padding_decays(model):
    """Padding that decays weights."""
    body = function(model, "counted_keys")
    become(producer(body, "rest"), "Mul", "everything", "decay")
    body.node.insert(2, onnx.helper.make_node("Max", ["real", "one"], ["everything"]))


def padding_weighed(model):
    """Padding with weights."""
    drop(producer(function(model, "counted_keys"), "counted"))


def padding_before_keys(model):
    """Padding as the token before a row's first one, in time mixing."""
    drop_mask(function(model, "time_mix"), 0, 5)


def padding_before_channels(model):
    """Padding as the token before a row's first one, in channel mixing."""
    for body in _channel_mixes(model):
        drop_mask(body, 0, 2)


def last_token_of_padding(model):
    """The batch's last place as each row's last token, padding or not."""
    body = function(model, "token_shift")
    through(body, "ends", "Mul", 0)
    through(body, "ends.changed", "Add", -1)


def last_token_but_one(model):
    """The token before the last one in its place."""
    through(function(model, "token_shift"), "ends", "Sub", 1)


def tokens_alone(model):
    """Tokens without those before them."""
    become(producer(function(model, "interpolated"), "y"), "Identity", "x")


def shares_exchanged(model):
    """The share of a token for that of the one before it."""
    body = function(model, "interpolated")
    become(node(body, "Sub"), "Sub", "shifted", "x")
    replace_input(producer(body, "y"), "shifted", "x")


def values_by_the_shares_of_keys(model):
    """Values of tokens that are interpolated as those of keys are."""
    replace_input(producer(function(model, "time_mix"), "v_input"), "mix_v", "mix_k")


def no_bonus(model):
    """The token's own weight without its bonus."""
    drop(producer(function(model, "wkv"), "current"))


def bonus_of_the_past(model):
    """Keys that keep their bonus in later tokens."""
    body = function(model, "wkv")
    counted = producer(body, "counted.counted")
    raised = producer(body, "current")
    body.node.remove(raised)
    body.node.insert(0, raised)
    replace_input(counted, "k", "current")


def nothing_decays(model):
    """Weights that do not decay."""
    through(function(model, "wkv"), "decay", "Mul", 0.0)


def decays_without_an_exponential(model):
    """The logarithm of a decay's speed for the speed."""
    drop(producer(function(model, "time_mix"), "Exp"))


def sums_for_means(model):
    """Sums of values that are not divided by those of weights."""
    drop(producer(function(model, "mean"), "y"))


def maximum_of_the_past_alone(model):
    """Means whose own weight is relative to nothing."""
    replace_input(producer(function(model, "mean"), "tmp_0"), "highest", "maximum")


def step_without_its_token(model):
    """Steps of one token whose weight is not added."""
    drop(producer(function(model, "one_token"), "weights"))


def means_ungated(model):
    """Time mixing without its gate."""
    drop(producer(function(model, "time_mix"), "gated"), 1)


def gate_unbounded(model):
    """A gate of time mixing without its sigmoid."""
    drop(producer(function(model, "time_mix"), "Sigmoid"))


def channels_ungated(model):
    """Channel mixing without its gate."""
    for body in _channel_mixes(model):
        drop(producer(body, "y"), 1)


def channels_not_squared(model):
    """A ReLU that is not squared."""
    drop(node(function(model, "relu_squared"), "Mul"))


def not_rescaled(model):
    """Norms of a layer behind a halving with the epsilon of those before it."""
    set_attribute(node(starting(model, "norm_2"), "LayerNormalization"), "epsilon", 0.01)


def last_norm_of_the_config(model):
    """The last norm with the epsilon of the others."""
    set_attribute(node(starting(model, "norm_3"), "LayerNormalization"), "epsilon", 0.04)


def _channel_mixes(model):
    """The functions of channel mixing: that of the last layer over a static cache is one of its own."""
    return [body for body in model.functions if body.name.startswith("channel_mix")]
