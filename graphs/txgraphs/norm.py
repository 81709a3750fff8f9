"""Normalisation over the last axis."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import NormSpec
from txgraphs import domain, op


@cache
def norm(spec: NormSpec) -> OnnxFunction:
    """Layer normalisation x (..., W) -> y (..., W) (Ba et al. 2016, section 3)."""
    eps = spec.eps

    @script(domain, default_opset=op)
    def norm(x, weight, bias):
        y = op.LayerNormalization(x, weight, bias, epsilon=eps)
        return y

    return norm
