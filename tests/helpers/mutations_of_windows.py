"""Mutations for attention in windows: the shift, its mask, the biases, the merging of patches."""

from helpers.graph_edits import become, constant, drop, function, node, set_attribute, set_constant, through


def not_shifted(model):
    """Windows of every layer of the first stage where those of even layers are."""
    set_constant(constant(function(model, "window_shift"), [2]), [0])


def shifted_back_too_far(model):
    """A shifted layer's results two shifts away from their places."""
    back = node(function(model, "window_order"), "Sub", -1)
    become(back, "Add", *back.input)


def shift_without_mask(model):
    """Shifted windows in which vectors of opposite edges see each other."""
    set_constant(constant(function(model, "window_shift"), -100.0), 0.0)


def shift_a_single_window(model):
    """A grid of one window shifted too."""
    larger = node(function(model, "window_shift"), "Greater")
    become(larger, "GreaterOrEqual", *larger.input)


def bias_transposed(model):
    """The bias of a query and a key that of the key and the query."""
    set_attribute(node(function(model, "pair_bias"), "Transpose"), "perm", [2, 1, 0])


def merge_columns_first(model):
    """Four vectors side by side in the order of reading."""
    set_attribute(node(function(model, "squares"), "Transpose"), "perm", [0, 1, 3, 2, 4, 5])


def windows_turned(model):
    """Vectors of a window by columns, not by rows, before their biases."""
    set_attribute(node(function(model, "window_rows"), "Transpose"), "perm", [0, 1, 3, 5, 4, 2, 6])


def keys_of_any_length(model):
    """Keys of cosine attention that are not L2-normalised."""
    unit = node(function(model, "window_attention"), "unit_heads")
    drop(unit)


def halved_bias(model):
    """The largest continuous bias halved."""
    set_constant(constant(function(model, "window_attention"), 16.0), 8.0)


def larger_distances(model):
    """Continuous biases of distances half as large again."""
    through(function(model, "continuous_bias"), "coordinates", "Mul", 1.5)
