"""Queries that grow with their positions, in every kind of attention that has them."""

from dataclasses import replace
from functools import partial

import onnx_ir as ir
import pytest
import torch
import txgraphs.attention
import txgraphs.latent_attention
import txgraphs.position
import txmodels.attention
import txmodels.latent_attention
import txmodels.position
from helpers.twins import check, check_asked, integers, random, seeded
from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale

from txexport.spec import (
    AttentionSpec,
    Cache,
    LatentAttentionSpec,
    NormKind,
    NormSpec,
    QueryGrowthSpec,
    RotarySpec,
)

B, S, T, W, N, K, H, R = 3, 5, 9, 12, 4, 2, 6, 10
GROWTH = QueryGrowthSpec(0.4, 3)
ROTARY = RotarySpec((1.0, 0.3, 0.0), growth=GROWTH)
PLAIN = AttentionSpec(W, N, K, H, causal=True, rotary=ROTARY)
LATENT = LatentAttentionSpec(W, 3, 4, 7, R, ROTARY, NormSpec(R, 1e-3, NormKind.RMS), 0.4, q_lora_rank=11)
ASKED = torch.tensor([[0], [4], [2]])


@pytest.mark.parametrize(("rate", "length"), [(0.1, 16384), (0.4, 3), (2.0, 7)])
def test_growth_is_that_of_the_original(rate, length):
    """At and around every multiple of the length too, where a quotient of floats may be one off."""
    edges = torch.arange(1, 17) * length
    positions = torch.stack([edges - 1, edges, edges + 1])
    spec = QueryGrowthSpec(rate, length)
    function = txgraphs.position.query_growth(spec, ir.DataType.FLOAT)
    [growth] = check(partial(txmodels.position.query_growth, spec), function, positions)
    expected = get_llama_4_attn_scale(positions, rate, length)[:, 0]
    torch.testing.assert_close(torch.from_numpy(growth), expected, atol=0, rtol=2e-7)
    assert (growth[0, 0], growth[1, 0]) == (1, pytest.approx(1 + rate * 0.6931472))
    early = QueryGrowthSpec(rate, length, ahead=1)
    function = txgraphs.position.query_growth(early, ir.DataType.FLOAT)
    [growth] = check(partial(txmodels.position.query_growth, early), function, positions)
    intervals = torch.floor((positions.float() + 1.0) / length)  # as Llama4TextAttention
    expected = torch.log1p(intervals) * rate + 1.0
    torch.testing.assert_close(torch.from_numpy(growth)[..., 0], expected, atol=0, rtol=2e-7)


def context_of() -> dict[str, torch.Tensor]:
    positions = integers(20, B, S)
    cos, sin = txmodels.position.rotation(ROTARY, positions)
    return {"cos": cos, "sin": sin, "growth": txmodels.position.query_growth(GROWTH, positions)}


def mask_of() -> torch.Tensor:
    return (torch.arange(T) <= torch.arange(T - S, T)[:, None]).expand(B, 1, S, T)


def past_of(spec, length: int) -> dict[str, torch.Tensor]:
    k, v = (random(B, heads, length, size) for heads, size in spec.cache_shapes)
    return {"past_k": k + 1, "past_v": v - 1}


WHOLE = {
    "attention": (txmodels.attention.Attention, txgraphs.attention.attention, PLAIN),
    "latent": (
        txmodels.latent_attention.LatentAttention,
        txgraphs.latent_attention.latent_attention,
        LATENT,
    ),
}
CACHED = {
    "attention": (txmodels.attention.CachedAttention, txgraphs.attention.cached_attention, PLAIN),
    "normed": (
        txmodels.attention.CachedAttention,
        txgraphs.attention.cached_attention,
        replace(PLAIN, head_norm=NormSpec(H, 1e-6, NormKind.RMS), rotated_norm=True),
    ),
    "latent": (
        txmodels.latent_attention.CachedLatentAttention,
        txgraphs.latent_attention.cached_latent_attention,
        LATENT,
    ),
}


@pytest.mark.parametrize(("module", "function", "spec"), WHOLE.values(), ids=WHOLE)
def test_attention_of_a_sequence(module, function, spec):
    mask = torch.ones(B, 1, S, S, dtype=torch.bool).tril()
    y, *_ = check(module(spec), partial(function, spec, False), random(B, S, W), mask, **context_of())
    with torch.no_grad():
        without = seeded(module(spec))(random(B, S, W), mask, **{**context_of(), "growth": None})[0]
    assert abs(y - without.numpy()).max() > 1e-2


@pytest.mark.parametrize("cache", Cache)
@pytest.mark.parametrize(("module", "function", "spec"), CACHED.values(), ids=CACHED)
def test_attention_over_a_cache(module, function, spec, cache):
    static = cache == Cache.STATIC
    named = {
        "cache_lengths": torch.full((B,), T - S) if static else None,
        **past_of(spec, T if static else T - S),
    }
    arguments = random(B, S, W), mask_of()
    check(module(spec, cache), partial(function, spec, False, cache), *arguments, **context_of(), **named)


@pytest.mark.parametrize(("module", "function", "spec"), CACHED.values(), ids=CACHED)
def test_queries_asked_for_grow_by_their_own_positions(module, function, spec):
    named = {"cache_lengths": torch.full((B,), T - S), **past_of(spec, T), "logits_indices": ASKED}
    graph = partial(function, spec, False, Cache.STATIC)
    check_asked(module(spec, Cache.STATIC), graph, mask_of(), random(B, S, W), **context_of(), **named)
