"""Token ids to vectors."""

from functools import cache

from onnxscript import OnnxFunction, script

from txexport.spec import EmbeddingSpec, NormSpec
from txgraphs import domain, op
from txgraphs.linear import linear
from txgraphs.norm import norm

KEPT = 1 - 0.15 * 0.8  # of the tokens that ESM read in training, those whose vectors were left


@cache
def embedding(spec: EmbeddingSpec) -> OnnxFunction:
    """Words, positions and segments, added (Vaswani et al. 2017, 3.4; Devlin et al. 2019, 3).

    Tables narrower than the stack are projected to its width (Lan et al. 2020, 3.1).
    """
    scale, scaled = spec.scale, spec.scale != 1
    table, offset = spec.position.table, spec.position.offset
    masked, drops, dropped_id = spec.masked, spec.dropped is not None, spec.dropped or 0
    segments, one_segment, normed = spec.type_vocab_size > 1, spec.type_vocab_size == 1, spec.norm is not None
    factored, project = spec.factored_size is not None, linear(True)
    normalise = norm(spec.norm or NormSpec(1, 1.0))

    @script(domain, default_opset=op)
    def embedding(
        input_ids,
        positions,
        token_type_ids,
        attention_mask,
        word_weight,
        position_weight,
        segment_weight,
        norm_weight,
        norm_bias,
        project_weight,
        project_bias,
    ):
        words = op.Gather(word_weight, input_ids)  # (B, S, W)
        if drops:
            dropped = op.Cast(op.Equal(input_ids, op.Constant(value_int=dropped_id)), to=1)  # (B, S)
            axis, one = op.Constant(value_ints=[1]), op.Constant(value_float=1.0)
            real = op.Cast(op.ReduceSum(attention_mask, axis), to=1)  # (B, 1)
            share = op.Unsqueeze(op.ReduceSum(dropped, axis) / real, axis)  # (B, 1, 1)
            left = op.Unsqueeze(one - dropped, op.Constant(value_ints=[2]))  # (B, S, 1)
            words = words * left * op.Constant(value_float=KEPT) / (one - share)
        if scaled:
            words = words * op.Constant(value_float=scale)
        if table:
            words = words + op.Gather(position_weight, positions + op.Constant(value_int=offset))
        if one_segment:
            words = words + segment_weight
        if segments:
            words = words + op.Gather(segment_weight, token_type_ids)
        if normed:
            words = normalise(words, norm_weight, norm_bias)
        if masked:
            words = words * op.Unsqueeze(op.Cast(attention_mask, to=1), op.Constant(value_ints=[2]))
        if factored:
            x = project(words, project_weight, project_bias)
        else:
            x = op.Identity(words)
        return x

    return embedding
