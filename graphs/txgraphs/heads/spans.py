"""Spans of a text (Devlin et al. 2019, 4.2)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word, projected, transformed


@component("start_logits", "end_logits")
def span_head(spec: HeadSpec, g: Body, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Scores of an answer's start and end at each token (Devlin et al. 2019, 4.2): x (B,S,W) -> two (B,S)."""
    op = g.op
    both = projected(spec, g, transformed(spec, g, x))  # (B, S, 2)
    start_logits = op.Gather(both, op.Constant(value_int=0), axis=2)  # (B, S)
    end_logits = op.Gather(both, op.Constant(value_int=1), axis=2)
    return start_logits, end_logits


def outputs(spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word) -> dict[str, ir.Value]:
    """The graph's outputs: start_logits and end_logits (B,S)."""
    start_logits, end_logits = span_head(spec, place, x)
    return {names.START_LOGITS: start_logits, names.END_LOGITS: end_logits}
