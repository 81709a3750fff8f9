"""Attention beside dynamic convolutions: the original's numbers, in both halves, and what they cost."""

from functools import partial

import pytest
import torch
import transformers
import txgraphs.convolved_attention
import txmodels.convolved_attention
from helpers.twins import check, random
from transformers.models.convbert.modeling_convbert import ConvBertAttention

from txexport.errors import SpecError
from txexport.inspection import flops
from txexport.spec import (
    Activation,
    BlockSpec,
    ConvolvedAttentionSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
    attention_parameters,
)

SPECS = {
    "plain": ConvolvedAttentionSpec(24, 3, 4, 5),
    "one head": ConvolvedAttentionSpec(20, 1, 10, 9),
    "kernel of 3": ConvolvedAttentionSpec(24, 2, 6, 3),
}
PARTS = {
    **{"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"},
    **{"kernel": "self.conv_kernel_layer", "convolved": "self.conv_out_layer"},
}


@pytest.mark.parametrize("length", [1, 2, 7, 23])
@pytest.mark.parametrize("name", SPECS)
def test_both_halves(name, length):
    spec = SPECS[name]
    module = txmodels.convolved_attention.ConvolvedAttention(spec)
    shapes = {key: tuple(one.shape) for key, one in module.named_parameters()}
    assert shapes == attention_parameters.attention(spec)
    mask = (torch.arange(length) < torch.tensor([[length], [1], [length // 2 + 1]])).long()
    function = partial(txgraphs.convolved_attention.convolved_attention, spec)
    check(module, function, random(3, length, spec.hidden_size), mask)


@pytest.mark.parametrize("name", SPECS)
@torch.no_grad()
def test_the_original(name):
    spec = SPECS[name]
    config = transformers.ConvBertConfig(
        hidden_size=spec.hidden_size,
        embedding_size=spec.hidden_size,
        num_attention_heads=2 * spec.num_heads,
        conv_kernel_size=spec.kernel,
    )
    original = ConvBertAttention(config).eval()
    original.output.LayerNorm = torch.nn.Identity()
    state = original.state_dict()
    module = txmodels.convolved_attention.ConvolvedAttention(spec)
    span = "self.key_conv_attn_layer"
    weights = {
        f"{ours}.{leaf}": state[f"{theirs}.{leaf}"]
        for ours, theirs in PARTS.items()
        for leaf in ("weight", "bias")
    }
    weights["depthwise.weight"] = state[f"{span}.depthwise.weight"]
    weights["pointwise.weight"] = state[f"{span}.pointwise.weight"][..., 0]
    weights["pointwise.bias"] = state[f"{span}.bias"][:, 0] + 0.3
    original.self.key_conv_attn_layer.bias += 0.3
    module.load_state_dict(weights)
    x = random(2, 13, spec.hidden_size)
    y = module(x, torch.ones(2, 13, dtype=torch.long))
    assert (y + x - original(x)).abs().max() < 1e-5


@pytest.mark.parametrize("length", [4, 23])
def test_operations_are_those_of_products_and_convolutions(length):
    block = BlockSpec(
        SPECS["plain"], FeedForwardSpec(24, 30, Activation.GELU), NormSpec(24, 1e-5), NormPlacement.POST
    )
    stack = TextStackSpec(EmbeddingSpec(31, 24, PositionSpec(PositionKind.LEARNED, 40)), (block,), 1)
    work = flops.prefill(EncoderSpec(stack), length)["encoder"]
    assert work.attention == 4 * 12 * length**2
    products = 5 * 24 * 12 + 12 * 15 + 24 * 24 + 2 * 24 * 30
    assert work.matrices == 2 * length * (products + 5 * 24 + 5 * 12)
    assert work.total == sum(flops.by_part(EncoderSpec(stack), "encoder", length).values())


@pytest.mark.parametrize("kernel", [4, 1, 0])
def test_a_kernel_without_a_middle_is_named(kernel):
    with pytest.raises(SpecError, match=f"kernel is {kernel}, expected an odd number|kernel is 0"):
        ConvolvedAttentionSpec(24, 3, 4, kernel)
