"""Masked language modelling (Devlin et al. 2019, 3.1)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place, Received
from txgraphs.heads._transform import Tokens, Word, projected, transformed


@component("logits")
def masked_lm_head(spec: HeadSpec, g: Body, x: ir.Value, word: Received | None) -> ir.Value:
    """Scores of the vocabulary at every position (Devlin et al. 2019, 3.1).

    x (B,S,W), a tied head's word embedding (V,W) -> logits (B,S,V).
    """
    shaped = transformed(spec, g, x)  # (B, S, W)
    logits = projected(spec, g, shaped, word)  # (B, S, V)
    return logits


def outputs(spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word) -> dict[str, ir.Value]:
    """The graph's outputs: logits (B,S,V)."""
    return {names.LOGITS: masked_lm_head(spec, place, x, word() if spec.tied else None)}
