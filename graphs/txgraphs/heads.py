"""What stands on top of a stack."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import HeadSpec
from txgraphs import domain, op
from txgraphs.activation import activation
from txgraphs.linear import linear
from txgraphs.norm import norm


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
def masked_lm_head(spec: HeadSpec) -> OnnxFunction:
    """Scores of every word (Devlin et al. 2019, 3.1): x (B,S,W), word matrix (V,W) -> logits (B,S,V)."""
    assert spec.activation is not None
    assert spec.norm is not None
    act, normalise = activation(spec.activation), norm(spec.norm)
    dense, project, tied = linear(True), linear(spec.bias), spec.tied

    @script(domain, default_opset=op)
    def masked_lm_head(x, word, weight, bias, dense_weight, dense_bias, norm_weight, norm_bias):
        shaped = normalise(act(dense(x, dense_weight, dense_bias)), norm_weight, norm_bias)  # (B, S, W)
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
        return logits

    return causal_lm_head


@cache
def sequence_head(spec: HeadSpec) -> OnnxFunction:
    """Scores of a whole sequence's labels (Devlin et al. 2019, 3.2): x (B,S,W) -> logits (B,labels)."""
    assert spec.activation is not None
    act, dense, project = activation(spec.activation), linear(True), linear(spec.bias)

    @script(domain, default_opset=op)
    def sequence_head(x, weight, bias, dense_weight, dense_bias):
        first = op.Gather(x, op.Constant(value_int=0), axis=1)  # (B, W)
        pooled = act(dense(first, dense_weight, dense_bias))  # (B, W)
        logits = project(pooled, weight, bias)  # (B, labels)
        return logits

    return sequence_head


@cache
def token_head(spec: HeadSpec) -> OnnxFunction:
    """Scores of every token's labels (Devlin et al. 2019, 5.3): x (B,S,W) -> logits (B,S,labels)."""
    project = linear(spec.bias)

    @script(domain, default_opset=op)
    def token_head(x, weight, bias):
        logits = project(x, weight, bias)  # (B, S, labels)
        return logits

    return token_head


@cache
def span_head(spec: HeadSpec) -> OnnxFunction:
    """How well an answer starts and ends at every token (Devlin et al. 2019, 4.2): x (B,S,W) -> two (B,S)."""
    project = linear(spec.bias)

    @script(domain, default_opset=op)
    def span_head(x, weight, bias):
        both = project(x, weight, bias)  # (B, S, 2)
        start_logits = op.Gather(both, op.Constant(value_int=0), axis=2)  # (B, S)
        end_logits = op.Gather(both, op.Constant(value_int=1), axis=2)  # (B, S)
        return start_logits, end_logits

    return span_head
