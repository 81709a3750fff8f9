"""Projection of the last axis."""

from torch import nn


class Linear(nn.Linear):
    """x (..., in) -> y (..., out): y = x weightᵀ + bias, with weight (out, in)."""
