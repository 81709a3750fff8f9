"""Mutations of an encoder and a decoder whose cross attention has a norm before and after it, and a cap."""

from helpers.graph_edits import attribute, drop, function, node, set_attribute, through


def drop_cross_post_norm(model):
    """No norm after cross attention."""
    body = function(model, "decoder_block")
    drop(next(one for one in body.node if "cross_attention_post_norm_weight" in one.input))


def wrong_cross_softcap(model):
    """Scores of cross attention capped 10 % higher."""
    mix = node(function(model, "cross_attention"), "capped_mix")
    set_attribute(mix, "softcap", 1.1 * attribute(mix, "softcap"))


def narrower_encoder_window(model):
    """A bidirectional window one token narrower on either side, as of a causal one."""
    through(function(model, "near_mask"), "distance", "Add", 1)
