"""Normalisation over the last axis."""

from torch import nn

from txexport.spec import NormSpec


class Norm(nn.LayerNorm):
    """Layer normalisation x (..., W) -> y (..., W) (Ba et al. 2016, section 3)."""

    def __init__(self, spec: NormSpec):
        super().__init__(spec.size, eps=spec.eps)
