"""Mutations of heat maps of points: the patches, their places, the maps."""

from helpers.graph_edits import drop, function, node, set_attribute


def without_border(model):
    """Patches that begin in the image's corner, with all zeros behind it."""
    embedding = node(function(model, "patch_embedding"), "Conv")
    set_attribute(embedding, "pads", [0, 0, 4, 4])


def without_shared_position(model):
    """Positions without the one that is added to every patch."""
    added = node(function(model, "patch_embedding"), "Add")
    drop(added)


def negative_patches(model):
    """Patches, or maps, without the ReLU behind them."""
    act = node(function(model, "pose_head"), "Relu")
    drop(act)


def convolved_one_place_later(model):
    """Maps convolved with the places below and to the right."""
    set_attribute(node(function(model, "pose_head"), "Conv"), "pads", [0, 0, 2, 2])


def shifted_doubling(model):
    """Maps doubled one place later."""
    set_attribute(node(function(model, "pose_head"), "ConvTranspose"), "pads", [0, 0, 2, 2])
