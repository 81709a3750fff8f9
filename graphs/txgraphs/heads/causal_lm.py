"""Causal language modelling (Radford et al. 2018, 3.1)."""

import onnx_ir as ir

from txexport.spec import HeadSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Received
from txgraphs.heads._transform import projected, transformed
from txgraphs.position import asked


@component("logits")
def causal_lm_head(
    spec: HeadSpec, g: Body, x: ir.Value, logits_indices: ir.Value | None, word: Received | None
) -> ir.Value:
    """Scores of the next token (Radford et al. 2018, 3.1) at the requested positions.

    x (B,S,W), logits_indices (B,L) or absent for all, a tied head's word embedding (V,W) -> logits (B,L,V).
    """
    op = g.op
    x = transformed(spec, g, asked(g, x, logits_indices))  # (B, L, W)
    if spec.scale != 1:
        x = op.Mul(x, op.Constant(value_float=spec.scale))
    logits = projected(spec, g, x, word)  # (B, L, V)
    if spec.softcap is not None:
        cap = op.Constant(value_float=spec.softcap)
        logits = op.Mul(op.Tanh(op.Div(logits, cap)), cap)
    return logits
