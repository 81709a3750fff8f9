"""Labels of a sequence, from one vector of it (Devlin et al. 2019, 3.2)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec, Pick
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word, projected, transformed
from txgraphs.heads.pick import pick


@component("logits")
def sequence_head(
    spec: HeadSpec, g: Body, x: ir.Value, input_ids: ir.Value | None, attention_mask: ir.Value | None
) -> ir.Value:
    """Scores of a sequence's labels, from one vector of it (Devlin et al. 2019, 3.2).

    x (B,S,W), input_ids and attention_mask (B,S) -> logits (B,labels).
    """
    if spec.pick == Pick.MEAN_AFTER_DENSE:
        x = transformed(spec, g, x)  # (B, S, W)
    shaped = g.call(pick(spec.pick, spec.pick_argument), x, input_ids, attention_mask)  # (B, W)
    if spec.pick != Pick.MEAN_AFTER_DENSE:
        shaped = transformed(spec, g, shaped)  # (B, W)
    logits = projected(spec, g, shaped)  # (B, labels)
    return logits


def outputs(spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word) -> dict[str, ir.Value]:
    """The graph's outputs: logits (B,labels)."""
    return {names.LOGITS: sequence_head(spec, place, x, *tokens)}
