"""Normalisation over the last axis."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import NormKind, NormSpec
from txgraphs import domain, op


def norm(spec: NormSpec) -> OnnxFunction:
    """Layer normalisation (Ba et al. 2016, 3) or root mean square (Zhang and Sennrich 2019, 3)."""
    return _norm(spec.kind == NormKind.RMS, spec.bias, spec.eps)  # one function for vectors of every size


@cache
def _norm(rms: bool, biased: bool, eps: float) -> OnnxFunction:

    @script(domain, default_opset=op)
    def norm(x, weight, bias):
        if rms:
            y = op.RMSNormalization(x, weight, epsilon=eps)
        elif biased:
            y = op.LayerNormalization(x, weight, bias, epsilon=eps)
        else:
            y = op.LayerNormalization(x, weight, epsilon=eps)
        return y

    return norm
