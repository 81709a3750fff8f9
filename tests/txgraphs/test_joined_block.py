"""Layers whose attention reads embeddings too, before a state space."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.joined_block
import txmodels.joined_block
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
STATES = Mamba2Spec(W, 4, 6, 5, 2, 3, NormSpec(24, 1e-5, NormKind.RMS))
ATTENTION = AttentionSpec(W, 3, 1, 8, causal=True, bias=False, output_bias=False, scale=0.5, input_size=2 * W)
BLOCK = BlockSpec(
    ATTENTION,
    FeedForwardSpec(W, 9, Activation.GELU, gated=True, bias=False, adapter_rank=3),
    NORM,
    NormPlacement.PRE,
    beside=STATES,
    joins_embedding=True,
)
ADAPTED = replace(BLOCK, attention=replace(ATTENTION, adapter_rank=4))


def inputs_of(cache: Cache) -> tuple[torch.Tensor, dict, dict]:
    """x, the inputs of the state space, and those of attention over a mask, embeddings among them."""
    real, ends = new_tokens([S, 2, 4], S)
    states = {"real": real, "ends": ends}
    states |= {name: random(B, *shape) for name, shape in STATES.states.items()}
    slots = C if cache == Cache.STATIC else P
    past = {"past_k": random(B, 1, slots, 8), "past_v": random(B, 1, slots, 8) + 1}
    lengths = torch.tensor([2, 0, 7]) if cache == Cache.STATIC else None
    if lengths is None:
        mask = torch.ones(B, 1, S, P + S, dtype=torch.bool).tril(P)
    else:
        positions = lengths[:, None] + torch.arange(S)
        mask = (torch.arange(C) <= positions[..., None])[:, None]
    context = {"embedded": random(B, S, W) - 1, "mask": mask, "cos": None, "sin": None}
    return random(B, S, W), states, context | {"cache_lengths": lengths} | past


@pytest.mark.parametrize("block", [BLOCK, ADAPTED], ids=["", "adapted"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cache", Cache)
def test_both_halves(cache, weighted, block):
    module = txmodels.joined_block.JoinedBlock(block, cache, weighted)
    assert {name: tuple(one.shape) for name, one in module.named_parameters()} == parameters.block(block)
    x, states, context = inputs_of(cache)
    function = partial(txgraphs.joined_block.joined_block, block, weighted, cache)
    results = check(module, function, x, states, **context)
    assert len(results) == 5 + weighted


def test_only_the_state_space_has_a_residual():
    """The outputs of attention and network reach the layer's output through the state space alone."""
    x, states, context = inputs_of(Cache.DYNAMIC)
    module = seeded(txmodels.joined_block.JoinedBlock(BLOCK, Cache.DYNAMIC))
    with torch.no_grad():
        module.beside.output.weight.zero_()
        y, *_ = module(x, states, **context)
    torch.testing.assert_close(y, x, rtol=0, atol=0)
