"""Mutations of images in tiles that a decoder attends to: their vectors, and the tokens that see them."""

from helpers.graph_edits import become, constant, drop, function, node, producer, set_constant, through


def sigmoid_gates(model):
    """Gates that are a sigmoid, which closes none of them."""
    become(node(function(model, "gate"), "Tanh"), "Sigmoid", function(model, "gate").input[1])


def open_gates(model):
    """Outputs that no gate scales."""
    drop(node(function(model, "gate"), "Mul"))


def padding_is_not_attended(model):
    """Patches that attend to no padding of their tile and to no tile of padding."""
    union = node(function(model, "tile_attention_mask"), "Or")
    become(union, "And", *union.input)


def padding_of_tiles_is_real(model):
    """Vectors of padding that see each other, as patches do."""
    set_constant(constant(function(model, "tile_attention_mask"), 5), 8)


def aspect_ratio_of_padding(model):
    """Positions of no aspect ratio for every image."""
    through(model.graph, "aspect_ratio_ids", "Mul", 0)


def positions_at_full_scale(model):
    """Positions within a tile that are not reduced by what the gate lets through of others."""
    drop(node(function(model, "tiles_embedding"), "Mul", 0))


def positions_of_tiles_at_full_scale(model):
    """Positions within all tiles that no gate scales."""
    drop(node(function(model, "tiles_embedding"), "Mul", 1))


def class_behind_patches(model):
    """The vector of a tile's class after those of its patches."""
    joined = node(function(model, "tiles_embedding"), "Concat", -1)
    joined.input[:] = reversed(joined.input)


def _layers(model):
    """The node that joins the outputs of the layers that are read, and the one that follows."""
    every = node(model.graph, "Concat", -1)
    return producer(model.graph, producer(model.graph, every.input[1]).input[0]), every


def layers_in_reverse(model):
    """The outputs of the layers that are read, the last of them first."""
    joined, _ = _layers(model)
    joined.input[:] = reversed(joined.input)


def layers_side_by_side(model):
    """All numbers of a layer that is read, and then those of the next."""
    joined, _ = _layers(model)
    through(model.graph, joined.output[0], "Transpose", perm=[0, 1, 3, 2])


def last_layer_behind(model):
    """The last layer's output after those of the layers that are read."""
    _, every = _layers(model)
    every.input[:] = reversed(every.input)


def unnormed_keys(model):
    """Keys of images without a norm."""
    drop(next(one for one in function(model, "cross_key_value").node if one.op_type.startswith("norm")))


def unnormed_queries(model):
    """Queries of tokens that attend to images without a norm."""
    drop(next(one for one in function(model, "cross_attention").node if one.op_type.startswith("norm")))


def earlier_images_are_seen(model):
    """Tokens that attend to every image before them."""
    drop(node(function(model, "image_mask"), "And", 0))


def later_images_are_seen(model):
    """Tokens that attend to images after them."""
    drop(node(function(model, "image_mask"), "And", 0), 1)


def padding_is_seen(model):
    """Tokens that attend to the tiles of padding, in place of those of an image."""
    body = function(model, "image_mask")
    shown = node(body, "Less", 1)
    become(shown, "GreaterOrEqual", *shown.input)


def tokens_before_images_see_nothing(model):
    """Tokens before the first image that attend to no tile, where the original has them attend to all."""
    drop(node(function(model, "image_mask"), "Or"))


def network_without_images(model):
    """The network's output for tokens that see no image too."""
    body = function(model, "source_block")
    drop(next(one for one in body.node if one.op_type == "Mul"))


def images_one_token_later(model):
    """Images that the token in their place does not see."""
    through(function(model, "image_mask"), function(model, "image_mask").input[1], "Sub", 1)
