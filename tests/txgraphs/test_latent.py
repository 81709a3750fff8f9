"""Latent attention: twins, and the equivalent attention with explicit keys and values."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.block
import txgraphs.latent_attention
import txmodels.attention
import txmodels.block
import txmodels.latent_attention
import txmodels.position
from helpers.twins import ABSENT, check, check_asked, integers, over_slots, random, seeded

from txexport.spec import (
    Activation,
    BlockSpec,
    Cache,
    FeedForwardSpec,
    LatentAttentionSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    RotarySpec,
    parameters,
)

B, S, P, C, W, N, R = 3, 5, 4, 12, 24, 3, 10
TURNS = RotarySpec((1.0, 0.3, 0.01), scale=1.2)
SPEC = LatentAttentionSpec(W, N, 4, 7, R, TURNS, NormSpec(R, 1e-3, NormKind.RMS), 0.4)
ATTENTIONS = {
    "plain": SPEC,
    "compressed queries": replace(SPEC, q_lora_rank=11),
    "biases": replace(SPEC, q_lora_rank=11, bias=True),
    "interleaved": replace(SPEC, rotary=replace(TURNS, interleaved=True)),
    "apart": replace(SPEC, apart=True, q_lora_rank=11),
    "one pair": replace(SPEC, rotary=RotarySpec((0.7,)), apart=True),
    "no positions": replace(SPEC, rotary=None, shared_dim=5),
}
EACH = pytest.mark.parametrize("spec", ATTENTIONS.values(), ids=ATTENTIONS)
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])


def turns(spec: LatentAttentionSpec) -> dict[str, torch.Tensor | None]:
    if spec.rotary is None:
        return {"cos": None, "sin": None}
    cos, sin = txmodels.position.rotation(spec.rotary, integers(9, B, S))
    return {"cos": cos, "sin": sin}


def past(spec: LatentAttentionSpec, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    k, v = (random(B, heads, length, size) for heads, size in spec.cache_shapes)
    return k + 1, v - 1


@WEIGHTED
@EACH
def test_attention(spec, weighted):
    mask = torch.rand(B, 1, S, S, generator=torch.Generator().manual_seed(3)) < 0.6
    module = txmodels.latent_attention.LatentAttention(spec, weighted)
    function = partial(txgraphs.latent_attention.latent_attention, spec, weighted)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.attention(spec)
    _, *weights = check(module, function, random(B, S, W), mask, *turns(spec).values())
    if weighted:
        sees = np.broadcast_to(mask.numpy().any(axis=3), weights[0].shape[:3])
        assert weights[0][sees].sum(axis=1) == pytest.approx(1, abs=1e-6)
        assert not weights[0][np.broadcast_to(~mask.numpy(), weights[0].shape)].any()


@WEIGHTED
@pytest.mark.parametrize("length", [0, P])
@EACH
def test_dynamic_attention(spec, length, weighted):
    mask = torch.rand(B, 1, S, length + S, generator=torch.Generator().manual_seed(3)) < 0.6
    arguments = random(B, S, W), mask, *turns(spec).values(), ABSENT, *past(spec, length)
    module = txmodels.latent_attention.CachedLatentAttention(spec, Cache.DYNAMIC, weighted)
    function = partial(txgraphs.latent_attention.cached_latent_attention, spec, weighted, Cache.DYNAMIC)
    check(module, function, *arguments)


@WEIGHTED
@pytest.mark.parametrize("lengths", [[0, 0, 0], [2, 0, 7]])
@EACH
def test_static_attention(spec, lengths, weighted):
    caches, filled = past(spec, C), torch.tensor(lengths)
    mask = over_slots(filled, caches[0], S)
    arguments = random(B, S, W), mask, *turns(spec).values(), filled, *caches
    module = txmodels.latent_attention.CachedLatentAttention(spec, Cache.STATIC, weighted)
    function = partial(txgraphs.latent_attention.cached_latent_attention, spec, weighted, Cache.STATIC)
    check(module, function, *arguments)


@EACH
def test_attention_of_tokens_asked_for(spec):
    k, v = past(spec, C)
    filled, asked = torch.tensor([2, 0, 7]), torch.tensor([[4, 0], [1, 1], [2, 3]])
    context = {**turns(spec), "cache_lengths": filled, "past_k": k, "past_v": v, "logits_indices": asked}
    module = txmodels.latent_attention.CachedLatentAttention(spec, Cache.STATIC)
    function = partial(txgraphs.latent_attention.cached_latent_attention, spec, False, Cache.STATIC)
    check_asked(module, function, over_slots(filled, k, S), random(B, S, W), **context)


@EACH
def test_keys_and_values_that_are_never_made(spec):
    """Attention with a key and a value per head, computed from the token's latent, is the same."""
    module = seeded(txmodels.latent_attention.LatentAttention(spec))
    x, mask = random(B, S, W), torch.ones(B, 1, S, S, dtype=torch.bool).tril()
    cos, sin = turns(spec).values()
    with torch.no_grad():
        y, *_ = module(x, mask, cos, sin)
        inner = x if spec.q_lora_rank is None else module.q_norm(module.q_down(x))
        q = module.q(inner).view(B, S, N, spec.head_dim).transpose(1, 2)
        latents, shared = module.kv_down(x).split([R, spec.qk_rope_head_dim], dim=2)
        latents = module.kv_norm(latents)
        content = module.k_up(latents).view(B, S, N, spec.qk_nope_head_dim).transpose(1, 2)
        values = module.v_up(latents).view(B, S, N, spec.v_head_dim).transpose(1, 2)
        order = torch.arange(spec.qk_rope_head_dim)
        if spec.apart:
            order = torch.cat([order[::2], order[1::2]])
        turned = [
            txmodels.attention.rotate(part[..., order], cos, sin, spec.rotary.interleaved)
            if spec.rotary is not None
            else part
            for part in (q[..., spec.qk_nope_head_dim :], shared[:, None])
        ]
        queries = torch.cat([q[..., : spec.qk_nope_head_dim], turned[0]], dim=3)
        keys = torch.cat([content, turned[1].expand(-1, N, -1, -1)], dim=3)
        mixed = torch.nn.functional.scaled_dot_product_attention(
            queries, keys, values, mask, scale=spec.scale
        )
        expected = module.o(mixed.transpose(1, 2).flatten(2))
    assert (y - expected).abs().max() < 1e-5


@WEIGHTED
@pytest.mark.parametrize("cache", Cache)
def test_decoder_block(cache, weighted):
    feed_forward = FeedForwardSpec(W, 50, Activation.SILU, bias=False, gated=True)
    norm = NormSpec(W, 1e-3, NormKind.RMS)
    spec = BlockSpec(ATTENTIONS["compressed queries"], feed_forward, norm, NormPlacement.PRE)
    module = txmodels.block.DecoderBlock(spec, cache, weighted)
    function = partial(txgraphs.block.decoder_block, spec, weighted, cache)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.block(spec)
    static = cache == Cache.STATIC
    k, v = past(spec.masked, C if static else P)
    lengths = torch.tensor([2, 0, 7]) if static else ABSENT
    mask = torch.ones(B, 1, S, P + S, dtype=torch.bool).tril(P)
    if static:
        mask = over_slots(lengths, k, S)
    context = {"mask": mask, **turns(spec.masked), "cache_lengths": lengths, "past_k": k, "past_v": v}
    check(module, function, random(B, S, W), ABSENT, **context)
