"""Layers with attention and state spaces side by side."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.block
import txmodels.block
from helpers.layer_pieces import new_tokens
from helpers.twins import check, random, seeded

from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    Cache,
    FeedForwardSpec,
    Mamba2Spec,
    NormKind,
    NormPlacement,
    NormSpec,
    parameters,
)

B, S, W, P, C = 3, 5, 12, 4, 12
NORM = NormSpec(W, 1e-3, NormKind.RMS)
BESIDE = Mamba2Spec(W, 4, 6, 5, 2, 3, None)
BLOCK = BlockSpec(
    AttentionSpec(W, 3, 1, 4, causal=True, bias=False, output_bias=False),
    FeedForwardSpec(W, 9, Activation.SILU, gated=True, bias=False),
    NORM,
    NormPlacement.PRE,
    beside=BESIDE,
)


def inputs_of(cache: Cache) -> tuple[torch.Tensor, dict, dict]:
    """x, the inputs of the state space, and those of attention over a mask."""
    real, ends = new_tokens([S, 2, 4], S)
    shapes = BESIDE.states.items()
    states = {"real": real, "ends": ends} | {name: random(B, *shape) for name, shape in shapes}
    slots = C if cache == Cache.STATIC else P
    past = {"past_k": random(B, 1, slots, 4), "past_v": random(B, 1, slots, 4) + 1}
    lengths = torch.tensor([2, 0, 7]) if cache == Cache.STATIC else None
    if lengths is None:
        mask = torch.ones(B, 1, S, P + S, dtype=torch.bool).tril(P)
    else:
        positions = lengths[:, None] + torch.arange(S)
        mask = (torch.arange(C) <= positions[..., None])[:, None]
    return random(B, S, W), states, {"mask": mask, "cos": None, "sin": None, "cache_lengths": lengths} | past


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cache", Cache)
def test_both_halves(cache, weighted):
    module = txmodels.block.HybridBlock(BLOCK, cache, weighted)
    assert {name: tuple(one.shape) for name, one in module.named_parameters()} == parameters.block(BLOCK)
    x, states, context = inputs_of(cache)
    results = check(
        module, partial(txgraphs.block.hybrid_block, BLOCK, weighted, cache), x, states, **context
    )
    assert len(results) == 5 + weighted


def test_tokens_asked_for():
    x, states, context = inputs_of(Cache.STATIC)
    picks = torch.tensor([[0, 4], [1, 1], [3, 0]])
    module = txmodels.block.HybridBlock(BLOCK, Cache.STATIC)
    picked = context["mask"].gather(2, picks[:, None, :, None].expand(-1, -1, -1, C))
    function = partial(txgraphs.block.hybrid_block, BLOCK, False, Cache.STATIC)
    y, *_ = check(module, function, x, states, **context | {"mask": picked}, logits_indices=picks)
    with torch.no_grad():
        every, *_ = module(x, states, **context)
    np.testing.assert_allclose(y, every.gather(1, picks[..., None].expand(-1, -1, W)), atol=1e-5)


def test_the_outputs_are_added():
    """The block is that of attention, plus what the state space gives of the same norm."""
    x, states, context = inputs_of(Cache.DYNAMIC)
    module = seeded(txmodels.block.HybridBlock(BLOCK, Cache.DYNAMIC))
    with torch.no_grad():
        module.feed_forward.down.weight.zero_()
        y, *_ = module(x, states, **context)
        normed = module.attention_norm(x)
        attended, *_ = module.attention(normed, **context)
        mixed, *_ = module.beside(normed, **states)
    torch.testing.assert_close(y, x + attended + mixed)
