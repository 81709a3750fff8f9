"""Mutations of objects that texts describe: the class token, the places of boxes, the comparison."""

import numpy as np
import onnx

from helpers.graph_edits import attribute, drop, function, node, set_attribute


def without_class(model):
    """Patches that are not multiplied by the class token."""
    product = node(function(model, "described_objects"), "Mul")
    drop(product)


def _logits_of_boxes(model) -> onnx.NodeProto:
    body = function(model, "described_objects")
    return next(
        one for one in body.node if one.op_type == "Constant" and len(attribute(one, "value").dims) == 2
    )


def columns_for_rows(model):
    """The places of boxes with x and y exchanged."""
    constant = _logits_of_boxes(model)
    numbers = onnx.numpy_helper.to_array(attribute(constant, "value"))
    changed = np.ascontiguousarray(numbers[:, [1, 0, 3, 2]])
    set_attribute(constant, "value", onnx.numpy_helper.from_array(changed))


def boxes_of_one_place(model):
    """Boxes without the places of their patches."""
    total = node(function(model, "described_objects"), "Add")
    drop(total)


def without_shift(model):
    """Cosines that are not shifted."""
    shifted = node(function(model, "descriptions"), "Add")
    drop(shifted)


def scale_less_one(model):
    """Scales without the 1 that is added to them."""
    scale = node(function(model, "descriptions"), "Add", 1)
    drop(scale)


def products_for_cosines(model):
    """Vectors of patches that are not normalised."""
    vectors = node(function(model, "descriptions"), "near_unit")
    drop(vectors)
