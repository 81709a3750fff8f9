"""Spans of a text (Devlin et al. 2019, 4.2)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import HeadSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.heads._transform import Tokens, Word, projected, transformed
from txgraphs.heads.pick import pick
from txgraphs.linear import linear


@component("start_logits", "end_logits")
def span_head(spec: HeadSpec, g: Body, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Scores of an answer's start and end at each token (Devlin et al. 2019, 4.2): x (B,S,W) -> two (B,S)."""
    op = g.op
    both = projected(spec, g, transformed(spec, g, x))  # (B, S, 2)
    start_logits = op.Gather(both, op.Constant(value_int=0), axis=2)  # (B, S)
    end_logits = op.Gather(both, op.Constant(value_int=1), axis=2)
    return start_logits, end_logits


@component("start_logits", "end_logits")
def question_span_head(
    spec: HeadSpec, g: Body, x: ir.Value, input_ids: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Scores of an answer's start and end as products with a question's vector (Ram et al. 2021, 3.2).

    x (B,S,W), input_ids (B,S) -> start_logits and end_logits (B,S).
    """
    question = g.call(pick(spec.pick, spec.pick_argument), x, input_ids, None)  # (B, W)
    start_logits = _scores(spec, g, "start", question, x)
    end_logits = _scores(spec, g, "end", question, x)
    return start_logits, end_logits


def _scores(spec: HeadSpec, g: Body, end: str, question: ir.Value, x: ir.Value) -> ir.Value:
    """question (B,W), x (B,S,W) -> scores (B,S)."""
    op, owner = g.op, g / "question" / end
    query = linear(False, owner / "project", transformed(spec, owner, question))
    query = op.Unsqueeze(query, op.Constant(value_ints=[2]))  # (B, W, 1)
    each = transformed(spec, g / "each" / end, x)  # (B, S, W)
    return op.Squeeze(op.MatMul(each, query), op.Constant(value_ints=[2]))


def outputs(spec: HeadSpec, place: Place, x: ir.Value, tokens: Tokens, word: Word) -> dict[str, ir.Value]:
    """The graph's outputs: start_logits and end_logits (B,S)."""
    if spec.question_aware:
        input_ids = tokens[0]
        assert input_ids is not None
        start_logits, end_logits = question_span_head(spec, place, x, input_ids)
    else:
        start_logits, end_logits = span_head(spec, place, x)
    return {names.START_LOGITS: start_logits, names.END_LOGITS: end_logits}
