"""What stands on top of a stack."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import Activation, HeadSpec, NormSpec, Pick
from txgraphs import domain, op
from txgraphs.activation import activation
from txgraphs.linear import linear
from txgraphs.norm import norm


@cache
def pick(kind: Pick, token: int | None) -> OnnxFunction:
    """One vector of each sequence: x (B,S,W), input_ids and attention_mask (B,S) -> picked (B,W).

    `token` is the id of padding for LAST, of what ends a text for LAST_EOS and FIRST_EOS; only the kinds that
    read ids or the mask need them. FIRST_AND_MEAN gives (B,2W).
    """
    first, both, mean = (kind == k for k in (Pick.FIRST, Pick.FIRST_AND_MEAN, Pick.MEAN))
    last, marked, mark = kind in (Pick.LAST, Pick.LAST_EOS), kind == Pick.LAST_EOS, kind == Pick.FIRST_EOS
    skips, number = kind == Pick.LAST and token is not None, token or 0

    @script(domain, default_opset=op)
    def pick(x, input_ids, attention_mask):
        one = op.Constant(value_ints=[1])
        if first:
            picked = op.Gather(x, op.Constant(value_int=0), axis=1)  # (B, W)
        elif both:
            rest = op.Slice(x, one, op.Shape(x, start=1, end=2), one)  # (B, S - 1, W)
            picked = op.Concat(
                op.Gather(x, op.Constant(value_int=0), axis=1),
                op.ReduceSum(rest, one, keepdims=0) / op.Cast(op.Shape(rest, start=1, end=2), to=1),
                axis=1,
            )  # (B, 2W)
        elif mean:
            weights = op.Unsqueeze(op.Cast(attention_mask, to=1), op.Constant(value_ints=[2]))  # (B, S, 1)
            picked = op.ReduceSum(x * weights, one, keepdims=0) / op.ReduceSum(weights, one, keepdims=0)
        else:
            if last:
                length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
                places = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
                score = op.Expand(places, op.Shape(input_ids))  # (B, S)
                if skips:
                    real = op.Not(op.Equal(input_ids, op.Constant(value_int=number)))
                    score = score * op.Cast(real, to=7)
                if marked:
                    found = op.Equal(input_ids, op.Constant(value_int=number))
                    score = score * op.Cast(found, to=7)
            elif mark:
                score = op.Cast(op.Equal(input_ids, op.Constant(value_int=number)), to=7)
            else:
                score = op.Identity(input_ids)
            place = op.ArgMax(op.Cast(score, to=1), axis=1, keepdims=1)  # (B, 1)
            picked = op.GatherND(x, place, batch_dims=1)  # (B, W)
        return picked

    return pick


@cache
def pooler() -> OnnxFunction:
    """Dense and tanh over the first token (Devlin et al. 2019, 3.1): x (B,S,W) -> pooled (B,W)."""
    project = linear(True)

    @script(domain, default_opset=op)
    def pooler(x, dense_weight, dense_bias):
        first = op.Gather(x, op.Constant(value_int=0), axis=1)  # (B, W)
        pooled = op.Tanh(project(first, dense_weight, dense_bias))  # (B, W)
        return pooled

    return pooler


@cache
def _shaped(spec: HeadSpec) -> OnnxFunction:
    """The dense layer, activation and norm that a projection may have before it: x (...,W) -> (...,W)."""
    transformed, normed = spec.activation is not None, spec.norm is not None
    dense, act = linear(spec.dense_bias), activation(spec.activation or Activation.TANH)
    normalise = norm(spec.norm or NormSpec(1, 1.0))

    @script(domain, default_opset=op)
    def transform(x, dense_weight, dense_bias, norm_weight, norm_bias):
        y = op.Identity(x)
        if transformed:
            y = act(dense(x, dense_weight, dense_bias))
        if normed:
            y = normalise(y, norm_weight, norm_bias)
        return y

    return transform


@cache
def masked_lm_head(spec: HeadSpec) -> OnnxFunction:
    """Scores of every word (Devlin et al. 2019, 3.1): x (B,S,W), word matrix (V,W) -> logits (B,S,V)."""
    shape, project, tied = _shaped(spec), linear(spec.bias), spec.tied

    @script(domain, default_opset=op)
    def masked_lm_head(x, word, weight, bias, dense_weight, dense_bias, norm_weight, norm_bias):
        shaped = shape(x, dense_weight, dense_bias, norm_weight, norm_bias)  # (B, S, W)
        if tied:
            logits = project(shaped, word, bias)  # (B, S, V)
        else:
            logits = project(shaped, weight, bias)
        return logits

    return masked_lm_head


@cache
def causal_lm_head(spec: HeadSpec, indexed: bool) -> OnnxFunction:
    """Scores of the next word (Radford et al. 2018, 3.1): x (B,S,W) -> logits (B,L,V).

    Where `indexed`, logits_indices (B,L) picks the positions; otherwise L = S.
    """
    project, tied, scale, scaled = linear(spec.bias), spec.tied, spec.scale, spec.scale != 1
    capped, softcap = spec.softcap is not None, spec.softcap or 0.0

    @script(domain, default_opset=op)
    def causal_lm_head(x, logits_indices, word, weight, bias):
        if indexed:
            picks = op.Unsqueeze(logits_indices, op.Constant(value_ints=[2]))  # (B, L, 1)
            asked = op.GatherND(x, picks, batch_dims=1)  # (B, L, W)
        else:
            asked = op.Identity(x)
        if scaled:
            asked = asked * op.Constant(value_float=scale)
        if tied:
            logits = project(asked, word, bias)  # (B, L, V)
        else:
            logits = project(asked, weight, bias)
        if capped:
            cap = op.Constant(value_float=softcap)
            logits = op.Tanh(logits / cap) * cap
        return logits

    return causal_lm_head


@cache
def sequence_head(spec: HeadSpec) -> OnnxFunction:
    """Scores of a whole sequence's labels, from one vector of it (Devlin et al. 2019, 3.2).

    x (B,S,W), input_ids and attention_mask (B,S) -> logits (B,labels).
    """
    take, shape, project = pick(spec.pick, spec.sought), _shaped(spec), linear(spec.bias)

    @script(domain, default_opset=op)
    def sequence_head(
        x, input_ids, attention_mask, weight, bias, dense_weight, dense_bias, norm_weight, norm_bias
    ):
        picked = take(x, input_ids, attention_mask)  # (B, W)
        shaped = shape(picked, dense_weight, dense_bias, norm_weight, norm_bias)  # (B, W)
        logits = project(shaped, weight, bias)  # (B, labels)
        return logits

    return sequence_head


@cache
def token_head(spec: HeadSpec) -> OnnxFunction:
    """Scores of every token's labels (Devlin et al. 2019, 5.3): x (B,S,W) -> logits (B,S,labels)."""
    shape, project = _shaped(spec), linear(spec.bias)

    @script(domain, default_opset=op)
    def token_head(x, weight, bias, dense_weight, dense_bias, norm_weight, norm_bias):
        shaped = shape(x, dense_weight, dense_bias, norm_weight, norm_bias)  # (B, S, W)
        logits = project(shaped, weight, bias)  # (B, S, labels)
        return logits

    return token_head


@cache
def span_head(spec: HeadSpec) -> OnnxFunction:
    """How well an answer starts and ends at every token (Devlin et al. 2019, 4.2): x (B,S,W) -> two (B,S)."""
    shape, project = _shaped(spec), linear(spec.bias)

    @script(domain, default_opset=op)
    def span_head(x, weight, bias, dense_weight, dense_bias, norm_weight, norm_bias):
        shaped = shape(x, dense_weight, dense_bias, norm_weight, norm_bias)  # (B, S, W)
        both = project(shaped, weight, bias)  # (B, S, 2)
        start_logits = op.Gather(both, op.Constant(value_int=0), axis=2)  # (B, S)
        end_logits = op.Gather(both, op.Constant(value_int=1), axis=2)  # (B, S)
        return start_logits, end_logits

    return span_head
