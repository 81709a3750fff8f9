"""Attention with relative distances and segments: twins, the original, all lengths, older operators."""

from functools import partial

import onnx_ir as ir
import pytest
import torch
import txgraphs.transformer_xl_attention as graphs
import txmodels.mask
import txmodels.transformer_xl_attention as models
from helpers.sparse import LENGTHS, SIZES, H, N, W, padding
from helpers.twins import check, integers, random, seeded
from transformers.models.xlnet.configuration_xlnet import XLNetConfig
from transformers.models.xlnet.modeling_xlnet import XLNetModel

from txexport.families._rope import plain_frequencies
from txexport.spec import SinusoidVectorsSpec, TransformerXLAttentionSpec, attention_parameters

SPEC = TransformerXLAttentionSpec(*SIZES)
VECTORS = {
    "whole": SinusoidVectorsSpec(plain_frequencies(10000.0, W)),
    "clamped": SinusoidVectorsSpec(plain_frequencies(10000.0, W), 3),
}
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


def arguments(length: int, kind: str = "whole") -> list[torch.Tensor]:
    """Inputs of attention: three rows of tokens of three types, two of them padded."""
    mask = padding(length)
    apart = models.other_segments(integers(3, 3, length))
    return [
        random(3, length, W),
        txmodels.mask.padding_mask(mask, mask),
        *models.sinusoid_vectors(VECTORS[kind], mask),
        apart,
    ]


@WEIGHTED
@pytest.mark.parametrize("length", LENGTHS)
def test_twins(length, weighted):
    module = models.TransformerXLAttention(SPEC, weighted)
    shapes = {key: tuple(p.shape) for key, p in module.named_parameters()}
    assert shapes == attention_parameters.transformer_xl_attention(SPEC)
    check(module, partial(graphs.transformer_xl_attention, SPEC, weighted), *arguments(length))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", VECTORS)
def test_vectors(kind, length):
    spec = VECTORS[kind]
    ids = torch.zeros(2, length, dtype=torch.int64)
    vectors, of_query = check(
        partial(models.sinusoid_vectors, spec), graphs.sinusoid_vectors(spec, ir.DataType.FLOAT), ids
    )
    assert vectors.shape == (1, spec.vectors(length), W)
    assert of_query[0, 0] == of_query[length - 1, length - 1] % vectors.shape[1] == length - 1  # no distance


def test_segments():
    check(models.other_segments, graphs.other_segments, integers(3, 4, 7))


@WEIGHTED
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("clamp", [-1, 3])
def test_is_the_original_s(clamp, length, weighted):
    """Complete outputs at real tokens, and weights, with token types and padding."""
    config = XLNetConfig(d_model=W, n_head=N, d_head=H, n_layer=1, d_inner=9, vocab_size=7, clamp_len=clamp)
    whole = seeded(XLNetModel(config)).eval()
    original, module = whole.layer[0].rel_attn, models.TransformerXLAttention(SPEC, weighted)
    with torch.no_grad():
        for ours, theirs in (("q", "q"), ("k", "k"), ("v", "v"), ("k_position", "r")):
            module.get_submodule(ours).weight.copy_(getattr(original, theirs).flatten(1).T)
        module.o.weight.copy_(original.o.flatten(1))
        for ours, theirs in (("content", "r_w_bias"), ("position", "r_r_bias"), ("segment", "r_s_bias")):
            getattr(module, f"{ours}_bias").copy_(getattr(original, theirs).flatten())
        module.segment.weight.copy_(original.seg_embed.flatten(1))
        x, mask, types = random(3, length, W), padding(length), integers(3, 3, length)
        given = [*models.sinusoid_vectors(VECTORS["clamped" if clamp > 0 else "whole"], mask)]
        apart = models.other_segments(types)
        mixed, *weights = module(x, txmodels.mask.padding_mask(mask, mask), *given, apart)
        hidden = (1 - mask.T)[None, :, :, None].float()
        hidden = ((hidden - torch.eye(length)[:, :, None, None]) > 0).float()
        same = torch.nn.functional.one_hot(apart[:, 0].long().permute(1, 2, 0), 2).float()
        distances = whole.relative_positional_encoding(length, length, bsz=3)
        output, _, *theirs = original(
            x.transpose(0, 1), None, hidden, None, distances, same, output_attentions=weighted
        )
        expected = output.transpose(0, 1)
        found = original.layer_norm(x + mixed)
    real = mask.bool()
    assert torch.allclose(found[real], expected[real], rtol=0, atol=2e-6)
    for ours, weight in zip(weights, theirs, strict=True):
        every = weight.permute(2, 0, 1, 3).transpose(1, 2)  # (B, S, S, N)
        assert torch.allclose(ours.permute(0, 2, 3, 1)[real], every.transpose(1, 2)[real], rtol=0, atol=2e-6)
