"""Labels of every token (Devlin et al. 2019, 5.3)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word, projected, transformed


@component("logits")
def token_head(spec: HeadSpec, g: Body, x: ir.Value) -> ir.Value:
    """Scores of every token's labels (Devlin et al. 2019, 5.3): x (B,S,W) -> logits (B,S,labels)."""
    logits = projected(spec, g, transformed(spec, g, x))  # (B, S, labels)
    return logits


def outputs(spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word) -> dict[str, ir.Value]:
    """The graph's outputs: logits (B,S,labels)."""
    return {names.LOGITS: token_head(spec, place, x)}
