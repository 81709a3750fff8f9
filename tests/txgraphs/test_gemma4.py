"""Layers that read another one's keys and values, and inputs of their own; a network beside experts."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.attention
import txgraphs.block
import txgraphs.dense_and_experts
import txgraphs.experts
import txgraphs.layer_inputs
import txgraphs.shared_attention
import txmodels.attention
import txmodels.block
import txmodels.dense_and_experts
import txmodels.experts
import txmodels.layer_inputs
import txmodels.shared_attention
from helpers.twins import check, check_asked, integers, random, rows_of, seeded

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import SpecError
from txexport.families import resolve
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    Cache,
    DenseAndExpertsSpec,
    ExpertsSpec,
    FeedForwardSpec,
    LayerInputSpec,
    LayerInputsSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    RotarySpec,
    SharedAttentionSpec,
)

B, S, T, W, N, K, H, P = 3, 5, 9, 12, 4, 2, 6, 7
NORM = NormSpec(W, 1e-6, NormKind.RMS)
PLAIN = AttentionSpec(
    W,
    N,
    K,
    H,
    causal=True,
    bias=False,
    output_bias=False,
    scale=1.0,
    rotary=RotarySpec((1.0, 0.3, 0.0)),
    head_norm=replace(NORM, size=H),
)
KINDS = {
    "norms of values": replace(PLAIN, value_norm=True),
    "values from keys": replace(PLAIN, keys_as_values=True, clip=0.5),
    "normed values from keys": replace(PLAIN, value_norm=True, keys_as_values=True, bias=True),
}
SHARED = {
    "full": PLAIN,
    "biases, capped": replace(PLAIN, bias=True, output_bias=True, softcap=2.0, clip=0.7),
    "a head each, no norm": replace(PLAIN, num_kv_heads=N, head_norm=None, rotary=None),
    "sinks": replace(PLAIN, sinks=True),
}
NETWORK = FeedForwardSpec(W, 10, Activation.GELU_TANH, bias=False, gated=True)
EXPERTS = ExpertsSpec(replace(NETWORK, intermediate_size=8), 5, 2, expert_scale=True)
OWN = LayerInputSpec(W, P, Activation.GELU_TANH, NORM)
ASKED = torch.tensor([[0], [4], [2]])


def turns(new: int = S) -> dict[str, torch.Tensor]:
    angles = random(B, new, 3)
    return {"cos": angles.cos(), "sin": angles.sin()}


def mask_of(new: int = S) -> torch.Tensor:
    return (torch.arange(T) <= torch.arange(T - new, T)[:, None]).expand(B, 1, new, T)


def cached(spec: AttentionSpec) -> dict[str, torch.Tensor]:
    return {"k": random(B, spec.num_kv_heads, T, H), "v": random(B, spec.num_kv_heads, T, H) + 1}


@pytest.mark.parametrize("cache", Cache)
@pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)
def test_values(spec, cache):
    past, lengths = random(B, K, T - S, H), None
    if cache == Cache.STATIC:
        past, lengths = random(B, K, T, H), torch.tensor([T - S, T - S, T - S])
    context = {"mask": mask_of(), **turns(), "cache_lengths": lengths, "past_k": past, "past_v": past + 1}
    module = txmodels.attention.CachedAttention(spec, cache)
    *_, v = check(
        module, partial(txgraphs.attention.cached_attention, spec, False, cache), random(B, S, W), **context
    )
    if not spec.value_norm:
        return
    with torch.no_grad():
        projected = (module.k if spec.keys_as_values else module.v)(random(B, S, W))
    unit = projected.unflatten(2, (K, H)).transpose(1, 2)
    unit = unit / (unit.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    scaled = unit * module.v_norm.weight.detach()
    assert abs(v[:, :, T - S :] - scaled.numpy()).max() < 1e-5


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", SHARED.values(), ids=SHARED)
def test_shared_attention(kind, weighted):
    spec = SharedAttentionSpec(kind, 1)
    module = txmodels.shared_attention.SharedAttention(spec, Cache.DYNAMIC, weighted)
    function = partial(txgraphs.shared_attention.shared_attention, spec, weighted)
    check(module, function, random(B, S, W), mask=mask_of(), **turns(), **cached(kind))


@pytest.mark.parametrize("new", [1, S])
def test_shared_attention_over_slots(new):
    """Each row reads its filled slots alone, as with a mask."""
    spec, filled = SharedAttentionSpec(PLAIN, 0), torch.tensor([new, 7, T])
    module = txmodels.shared_attention.SharedAttention(spec, Cache.STATIC)
    function = partial(txgraphs.shared_attention.shared_attention, spec, False)
    context = {**turns(new), **cached(PLAIN)}
    single = torch.tensor([new == 1])
    [y] = check(module, function, random(B, new, W), mask=None, **context, filled=filled, single=single)
    last = filled[:, None] + torch.arange(-new, 0)
    mask = (torch.arange(T) <= last[:, :, None])[:, None]
    with torch.no_grad():
        masked, *_ = module(random(B, new, W), mask, **context)
    assert abs(y - masked.numpy()).max() < 1e-5


def test_shared_attention_of_tokens_asked_for():
    spec = SharedAttentionSpec(PLAIN, 0)
    module = txmodels.shared_attention.SharedAttention(spec, Cache.STATIC)
    function = partial(txgraphs.shared_attention.shared_attention, spec, False)
    context = {**turns(), **cached(PLAIN), "logits_indices": ASKED}
    check_asked(module, function, mask_of(), random(B, S, W), **context)


def test_shared_attention_equals_that_of_the_layer_which_has_the_keys():
    """With the same queries: nothing but the projections of keys and values is left out."""
    whole_layer = seeded(txmodels.attention.CachedAttention(PLAIN, Cache.DYNAMIC))
    part = txmodels.shared_attention.SharedAttention(SharedAttentionSpec(PLAIN, 0), Cache.DYNAMIC)
    weights = whole_layer.state_dict()
    part.load_state_dict({name: weights[name] for name in part.state_dict()})
    assert set(weights) - set(part.state_dict()) == {"k.weight", "v.weight", "k_norm.weight"}
    x, past = random(B, S, W), random(B, K, T - S, H)
    with torch.no_grad():
        y, k, v = whole_layer(x, mask_of(), **turns(), cache_lengths=None, past_k=past, past_v=past)
        same, *_ = part(x, mask_of(), **turns(), k=k, v=v)
    torch.testing.assert_close(same, y)


def test_layer_inputs():
    spec, layers = LayerInputsSpec(20, replace(NORM, size=P)), 3
    module = txmodels.layer_inputs.LayerInputs(spec, W, layers)
    function = partial(txgraphs.layer_inputs.layer_inputs, spec, W, layers)
    ids, x = integers(20, B, S), random(B, S, W)
    [inputs] = check(module, function, ids, x)
    with torch.no_grad():
        for layer in range(layers):
            part = slice(layer * P, (layer + 1) * P)
            word = module.word.weight[ids, part] * P**0.5
            projected = module.norm(x @ module.project.weight[part].T * W**-0.5)
            ours = torch.from_numpy(inputs[:, :, layer])
            torch.testing.assert_close(ours, (word + projected) / 2**0.5, atol=1e-5, rtol=1e-5)


def test_layer_input():
    module = txmodels.layer_inputs.LayerInput(OWN)
    check(module, partial(txgraphs.layer_inputs.layer_input, OWN), random(B, S, W), random(B, S, P))


def test_a_learned_number_for_each_expert():
    module = txmodels.experts.Experts(EXPERTS)
    check(module, partial(txgraphs.experts.experts, EXPERTS), random(B, S, W))
    with torch.no_grad():
        share, choice = module.router(random(B, S, W))
        module.router.expert_scale.fill_(1.0)
        plain, _ = module.router(random(B, S, W))
    torch.testing.assert_close(plain.sum(1), torch.ones(B * S))
    assert not torch.allclose(share, plain)
    assert choice.shape == (B * S, 2)


def test_dense_and_experts():
    spec = DenseAndExpertsSpec(NETWORK, EXPERTS, NORM)
    module = txmodels.dense_and_experts.DenseAndExperts(spec)
    function = partial(txgraphs.dense_and_experts.dense_and_experts, spec)
    check(module, function, random(B, S, W), random(B, S + 1, W)[:, 1:])


NETWORKS = {"dense": NETWORK, "experts too": DenseAndExpertsSpec(NETWORK, EXPERTS, NORM)}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("vector", [None, OWN], ids=["", "own input"])
def test_blocks(network, vector):
    block = BlockSpec(
        PLAIN, network, NORM, NormPlacement.SANDWICH, layer_input=vector, output_scale=vector is not None
    )
    context = {"mask": mask_of(), **turns()} | ({} if vector is None else {"layer_input": random(B, S, P)})
    past = random(B, K, T - S, H)
    module = txmodels.block.DecoderBlock(block, Cache.DYNAMIC)
    function = partial(txgraphs.block.decoder_block, block, False, Cache.DYNAMIC)
    named = {"cache_lengths": None, "past_k": past, "past_v": past + 1}
    check(module, function, random(B, S, W), None, **context, **named)
    shared = replace(block, attention=SharedAttentionSpec(PLAIN, 0))
    module = txmodels.block.SharedBlock(shared, Cache.DYNAMIC)
    check(
        module,
        partial(txgraphs.block.shared_block, shared, False),
        random(B, S, W),
        **context,
        **cached(PLAIN),
    )


def test_a_shared_block_of_tokens_asked_for():
    """Its own input is that of the same tokens."""
    shared = SharedAttentionSpec(PLAIN, 0)
    block = BlockSpec(shared, NETWORK, NORM, NormPlacement.SANDWICH, layer_input=OWN)
    module = txmodels.block.SharedBlock(block, Cache.STATIC)
    context = {**turns(), **cached(PLAIN), "layer_input": random(B, S, P)}
    function = partial(txgraphs.block.shared_block, block, False)
    mask = rows_of(mask_of(), ASKED, 2)
    [y] = check(module, function, random(B, S, W), mask=mask, **context, logits_indices=ASKED)
    with torch.no_grad():
        every, *_ = module(random(B, S, W), mask=mask_of(), **context)
    assert abs(y - rows_of(every, ASKED, 1).numpy()).max() < 1e-5


def test_a_decoder_of_images_has_no_inputs_of_layers(checkpoint_of):
    """They are looked up by token ids, which its graph does not read."""
    spec = resolve(Checkpoint(checkpoint_of("llava"))).spec
    width, decoder = spec.decoder.hidden_size, spec.decoder
    end = LayerInputSpec(width, P, Activation.GELU_TANH, replace(NORM, size=width))
    blocks = tuple(replace(block, layer_input=end) for block in decoder.blocks)
    inputs = LayerInputsSpec(311, replace(NORM, size=P))
    with pytest.raises(SpecError, match="the decoder has layer_inputs, which are read by token ids"):
        replace(spec, decoder=replace(decoder, blocks=blocks, layer_inputs=inputs))
