"""Mutations of attention beside dynamic convolutions."""

from helpers.graph_edits import drop, function, node, set_attribute, through
from helpers.mutations import blocks


def ignore_queries(model):
    """Kernels of the spans alone."""
    drop(node(function(model, "convolved_attention"), "Mul"))


def later_span(model):
    """Spans one token later."""
    set_attribute(node(function(model, "convolved_attention"), "Conv"), "pads", [1, 3])


def reversed_kernel(model):
    """The first number of a kernel for the last token of its span, and the reverse."""
    split = node(function(model, "convolved_attention"), "Split")
    split.output[0], split.output[-1] = split.output[-1], split.output[0]


def convolutions_first(model):
    """The heads of convolutions before those of attention."""
    joined = node(function(model, "convolved_attention"), "Concat")
    joined.input[0], joined.input[1] = joined.input[1], joined.input[0]


def drop_bias_of_spans(model):
    """Spans without their bias."""
    [bias] = [name for name in blocks(model)[0].input if name.endswith(".pointwise.bias")]
    through(model.graph, bias, "Mul", 0.0)
