"""Normalisation over the last axis."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import NormKind, NormSpec
from txgraphs import domain, op
from txgraphs._nodes import Nodes


def norm(spec: NormSpec, g: Nodes, x: ir.Value) -> ir.Value:
    """Layer normalisation (Ba et al. 2016, 3) or root mean square (Zhang and Sennrich 2019, 3).

    Or a scale and a shift alone (Sun et al. 2020, 3.3).
    """
    rms, scaled = spec.kind == NormKind.RMS, spec.kind == NormKind.NONE
    weights = [g.weight("weight")] if rms or not spec.bias else [g.weight("weight"), g.weight("bias")]
    return g.call(_norm(rms, scaled, spec.eps, len(weights) == 2), x, *weights)


@cache
def _norm(rms: bool, scaled: bool, eps: float, biased: bool) -> OnnxFunction:
    """One function for vectors of every size."""

    @script(domain, default_opset=op)
    def norm(x, weight, bias):
        if rms:
            y = op.RMSNormalization(x, weight, epsilon=eps)
        elif scaled:
            y = op.Add(op.Mul(x, weight), bias)
        elif biased:
            y = op.LayerNormalization(x, weight, bias, epsilon=eps)
        else:
            y = op.LayerNormalization(x, weight, epsilon=eps)
        return y

    return norm
