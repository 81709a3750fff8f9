"""Mutations of an encoder of questions, whose layers attend to an image."""

from helpers.graph_edits import blocks, drop, function, named, node, swap_inputs, through

IMAGE = "image_features"


def images_of_other_rows(model):
    """Each row with the image of another one."""
    through(model.graph, IMAGE, "Slice", [-1], [-(2**31)], [0], [-1])


def last_patch_unseen(model):
    """An image without its last patch."""
    through(model.graph, IMAGE, "Slice", [0], [-1], [1])


def first_layer_s_image(model):
    """Every layer reads the keys and values of the first one."""
    for block in blocks(model):
        block.input[:] = [name.replace("seen.1.", "seen.0.") for name in block.input]


def other_layer_s_seen_weights(model):
    """Keys of the image for the second layer computed with the first layer's weights."""
    call = named(model, "seen.1")
    call.input[:] = [name.replace("seen.1.k", "seen.0.k") for name in call.input]


def seen_keys_for_values(model):
    """Keys and values of an image exchanged."""
    swap_inputs(blocks(model)[1], "seen.1.k", "seen.1.v")


def image_without_residual(model):
    """Attention to an image in place of its sum with the question."""
    drop(node(function(model, "encoder_block"), "Add", 1), 1)


def image_unnormed(model):
    """The sum with an image without its norm."""
    body = function(model, "encoder_block")
    drop(next(one for one in body.node if one.name == "cross_attention_norm"))
