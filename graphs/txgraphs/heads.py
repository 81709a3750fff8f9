"""What stands on top of a stack."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import HeadSpec, Pick, VectorSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._nodes import Received
from txgraphs.activation import activation
from txgraphs.attention_pool import attention_pool
from txgraphs.linear import linear, project
from txgraphs.norm import norm
from txgraphs.position import asked


@cache
def pick(kind: Pick, token: int | None) -> OnnxFunction:
    """One vector of each sequence: x (B,S,W), input_ids and attention_mask (B,S) -> picked (B,W).

    `token` is the id of padding for LAST, of what ends a text for LAST_EOS and FIRST_EOS; only the kinds that
    read ids or the mask need them. FIRST_AND_MEAN gives (B,2W), of which `token` are left out of the mean, as
    of MEAN_BEHIND's.
    """
    first, both, mean = (kind == k for k in (Pick.FIRST, Pick.FIRST_AND_MEAN, Pick.MEAN))
    final, behind, seen = (kind == k for k in (Pick.FINAL, Pick.MEAN_BEHIND, Pick.LAST_SEEN))
    shown, two = kind == Pick.FIRST_SEEN, kind == Pick.FIRST_TWO
    mean = mean or kind == Pick.MEAN_LATE
    last, marked, mark = (
        kind in (Pick.LAST, Pick.LAST_EOS, Pick.LAST_SEEN),
        kind == Pick.LAST_EOS,
        kind == Pick.FIRST_EOS,
    )
    registers, next_one = token is not None, (token or 0) + 1
    skips, number = kind == Pick.LAST and token is not None, token or 0

    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        one = op.Constant(value_ints=[1])
        if first:
            picked = op.Gather(x, op.Constant(value_int=0), axis=1)  # (B, W)
        elif two:
            second = op.Gather(x, op.Constant(value_int=1), axis=1)
            picked = (op.Gather(x, op.Constant(value_int=0), axis=1) + second) * 0.5  # (B, W)
        elif final:
            picked = op.Gather(x, op.Constant(value_int=-1), axis=1)
        elif both:
            if registers:
                start = op.Constant(value_ints=[next_one])
                rest = op.Slice(x, start, op.Shape(x, start=1, end=2), one)
            else:
                rest = op.Slice(x, one, op.Shape(x, start=1, end=2), one)  # (B, S - 1, W)
            picked = op.Concat(
                op.Gather(x, op.Constant(value_int=0), axis=1),
                op.ReduceSum(rest, one, keepdims=0) / op.CastLike(op.Shape(rest, start=1, end=2), x),
                axis=1,
            )  # (B, 2W)
        elif behind:
            if registers:
                rest = op.Slice(x, op.Constant(value_ints=[number]), op.Shape(x, start=1, end=2), one)
            else:
                rest = op.Identity(x)
            count = op.CastLike(op.Shape(rest, start=1, end=2), x)
            picked = op.ReduceSum(rest / count, one, keepdims=0)  # a sound's sum may be too much for float16
        elif mean:
            weights = op.Unsqueeze(op.CastLike(attention_mask, x), op.Constant(value_ints=[2]))  # (B, S, 1)
            picked = op.ReduceSum(x * weights, one, keepdims=0) / op.ReduceSum(weights, one, keepdims=0)
        else:
            if last:
                length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
                places = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
                score = op.Expand(places, op.Shape(input_ids))  # (B, S)
                if skips:
                    real = op.Not(op.Equal(input_ids, op.Constant(value_int=number)))
                    score = score * op.Cast(real, to=7)
                if seen:
                    score = score * attention_mask
                if marked:
                    ends = op.Equal(input_ids, op.Constant(value_int=number))
                    score = score * op.Cast(ends, to=7)
            elif shown:
                score = op.Identity(attention_mask)
            elif mark:
                score = op.Cast(op.Equal(input_ids, op.Constant(value_int=number)), to=7)
            else:
                score = op.Identity(input_ids)
            place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
            picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick


@component("pooled")
def pooler(g: Body, x: ir.Value) -> ir.Value:
    """Dense and tanh over the first token (Devlin et al. 2019, 3.1): x (B,S,W) -> pooled (B,W)."""
    first = g.op.Gather(x, g.op.Constant(value_int=0), axis=1, name="first")  # (B, W)
    pooled = g.op.Tanh(linear(True, g / "dense", first))  # (B, W)
    return pooled


@component("vector")
def sequence_vector(
    spec: VectorSpec, g: Body, x: ir.Value, input_ids: ir.Value | None, attention_mask: ir.Value | None
) -> ir.Value:
    """One vector of a sequence, normed and projected (Radford et al. 2021, 2.4), or pooled of all.

    x (B,S,W), input_ids and attention_mask (B,S) -> vector (B,size).
    """
    if spec.pool is not None:
        return attention_pool(spec.pool, g / "pool", x)  # (B, W)
    vector = g.call(pick(spec.pick, spec.eos_token_id), x, input_ids, attention_mask)  # (B, W)
    if spec.norm is not None:
        vector = norm(spec.norm, g / "norm", vector)  # (B, W)
    return vector if spec.size is None else linear(spec.bias, g / "project", vector)  # (B, size)


def _shaped(spec: HeadSpec, g: Body, x: ir.Value) -> ir.Value:
    """x (...,W) as the projection takes it: as wide, or projected to fewer numbers."""
    if spec.activation is not None:
        x = g.call(activation(spec.activation), linear(spec.dense_bias, g / "dense", x))
    if spec.norm is not None:
        x = norm(spec.norm, g / "norm", x)
    return x if spec.factored_size is None else linear(spec.factored_bias, g / "narrow", x)


def _scores(spec: HeadSpec, g: Body, x: ir.Value, word: Received | None = None) -> ir.Value:
    """x (...,W), a tied head's word matrix (V,W) -> scores (...,V)."""
    return project(spec.bias, g, x, g.matrix("weight") if word is None else word)


@component("logits")
def masked_lm_head(spec: HeadSpec, g: Body, x: ir.Value, word: Received | None) -> ir.Value:
    """Scores of every word (Devlin et al. 2019, 3.1).

    x (B,S,W), a tied head's word matrix (V,W) -> logits (B,S,V).
    """
    shaped = _shaped(spec, g, x)  # (B, S, W)
    logits = _scores(spec, g, shaped, word)  # (B, S, V)
    return logits


@component("logits")
def causal_lm_head(
    spec: HeadSpec, g: Body, x: ir.Value, logits_indices: ir.Value | None, word: Received | None
) -> ir.Value:
    """Scores of the next word (Radford et al. 2018, 3.1), at the positions asked for.

    x (B,S,W), logits_indices (B,L) or absent for all, a tied head's word matrix (V,W) -> logits (B,L,V).
    """
    op = g.op
    x = _shaped(spec, g, asked(g, x, logits_indices))  # (B, L, W)
    if spec.scale != 1:
        x = op.Mul(x, op.Constant(value_float=spec.scale))
    logits = _scores(spec, g, x, word)  # (B, L, V)
    if spec.softcap is not None:
        cap = op.Constant(value_float=spec.softcap)
        logits = op.Mul(op.Tanh(op.Div(logits, cap)), cap)
    return logits


@component("logits")
def sequence_head(
    spec: HeadSpec, g: Body, x: ir.Value, input_ids: ir.Value | None, attention_mask: ir.Value | None
) -> ir.Value:
    """Scores of a whole sequence's labels, from one vector of it (Devlin et al. 2019, 3.2).

    x (B,S,W), input_ids and attention_mask (B,S) -> logits (B,labels).
    """
    if spec.pick == Pick.MEAN_LATE:
        x = _shaped(spec, g, x)  # (B, S, W)
    shaped = g.call(pick(spec.pick, spec.sought), x, input_ids, attention_mask)  # (B, W)
    if spec.pick != Pick.MEAN_LATE:
        shaped = _shaped(spec, g, shaped)  # (B, W)
    logits = _scores(spec, g, shaped)  # (B, labels)
    return logits


@component("logits")
def token_head(spec: HeadSpec, g: Body, x: ir.Value) -> ir.Value:
    """Scores of every token's labels (Devlin et al. 2019, 5.3): x (B,S,W) -> logits (B,S,labels)."""
    logits = _scores(spec, g, _shaped(spec, g, x))  # (B, S, labels)
    return logits


@component("start_logits", "end_logits")
def span_head(spec: HeadSpec, g: Body, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """How well an answer starts and ends at every token (Devlin et al. 2019, 4.2): x (B,S,W) -> two (B,S)."""
    op = g.op
    both = _scores(spec, g, _shaped(spec, g, x))  # (B, S, 2)
    start_logits = op.Gather(both, op.Constant(value_int=0), axis=2)  # (B, S)
    end_logits = op.Gather(both, op.Constant(value_int=1), axis=2)
    return start_logits, end_logits
