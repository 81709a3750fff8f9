"""Several vectors of a token, residuals of low rank beside attention, and gates that are cut off."""

from dataclasses import replace
from functools import partial

import onnx_ir as ir
import pytest
import torch
import txgraphs.augmented_residual
import txgraphs.block
import txgraphs.feedforward
import txgraphs.layer_inputs
import txgraphs.streams
import txmodels.augmented_residual
import txmodels.block
import txmodels.feedforward
import txmodels.layer_inputs
import txmodels.streams
from helpers.twins import check, random, rows_of, seeded

from txexport.spec import (
    Activation,
    AttentionSpec,
    AugmentedResidualSpec,
    BlockSpec,
    Cache,
    FeedForwardSpec,
    LayerInputSpec,
    LayerInputsSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    SharedAttentionSpec,
    StreamsSpec,
)

B, S, T, W, N, K, H, P = 3, 5, 9, 12, 4, 2, 6, 7
NORM = NormSpec(W, 1e-6, NormKind.RMS)
PLAIN = AttentionSpec(W, N, K, H, causal=True, bias=False, output_bias=False, scale=1.0)
NETWORK = FeedForwardSpec(W, 10, Activation.GELU_TANH, bias=False, gated=True, cutoff=0.3)
RESIDUAL = AugmentedResidualSpec(W, 4, NORM)
STREAMS = StreamsSpec(3, NORM)
KINDS = {"three": STREAMS, "two": StreamsSpec(2, NORM, output_scale=False)}
BLOCK = BlockSpec(
    PLAIN,
    NETWORK,
    NORM,
    NormPlacement.SANDWICH,
    layer_input=LayerInputSpec(W, P, Activation.GELU_TANH, NORM),
    augmented_residual=RESIDUAL,
    streams=STREAMS,
)
ASKED = torch.tensor([[0], [4], [2]])


def mask_of() -> torch.Tensor:
    return (torch.arange(T) <= torch.arange(T - S, T)[:, None]).expand(B, 1, S, T)


def scores_of(spec: StreamsSpec) -> torch.Tensor:
    return random(B, S, spec.count).tanh()


@pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)
def test_streams_before_and_behind_layers(spec):
    x, streams = random(B, S, W), random(B, S, spec.count, W)
    expand, merge = (
        one(spec, W) for one in (txmodels.streams.ExpandedStreams, txmodels.streams.MergedStreams)
    )
    [expanded] = check(expand, partial(txgraphs.streams.expanded_streams, spec), x)
    check(merge, partial(txgraphs.streams.merged_streams, spec), streams)
    lengths = torch.from_numpy(expanded).square().mean(-1)  # (B, S, A)
    torch.testing.assert_close(lengths, lengths[:, :, :1].expand_as(lengths))
    torch.testing.assert_close(torch.from_numpy(expanded[:, :, 0]), x)


def test_a_short_vector_is_not_made_longer_than_its_bound():
    """A vector of rounding errors would else become as long as a token."""
    short, like = random(B, S, W) * 1e-6, random(B, S, W)
    [y] = check(
        txmodels.streams.as_long_as,
        txgraphs.streams.as_long_as(ir.DataType.FLOAT),
        short,
        like,
    )
    expected = short * like.square().mean(-1, keepdim=True).sqrt() / 1e-5**0.5
    torch.testing.assert_close(torch.from_numpy(y), expected)


@pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)
def test_predictions_and_corrections(spec):
    streams, scores, y = random(B, S, spec.count, W), scores_of(spec), random(B, S, W)
    check(txmodels.streams.StreamRouter(spec), partial(txgraphs.streams.stream_router, spec), y)
    predict = txmodels.streams.PredictedStreams(spec)
    [predicted] = check(predict, partial(txgraphs.streams.predicted_streams, spec), streams, scores)
    correct = txmodels.streams.CorrectedStreams(spec)
    check(correct, partial(txgraphs.streams.corrected_streams, spec), streams, y, scores)
    with torch.no_grad():
        weights = torch.nn.functional.linear(scores, predict.weight).unflatten(2, (spec.count, spec.count))
        second = streams[:, :, 1] + sum(
            weights[:, :, 1, j, None] * streams[:, :, j] for j in range(spec.count)
        )
    torch.testing.assert_close(torch.from_numpy(predicted[:, :, 1]), second, atol=1e-5, rtol=1e-5)


def test_augmented_residual():
    module = txmodels.augmented_residual.AugmentedResidual(RESIDUAL)
    check(module, partial(txgraphs.augmented_residual.augmented_residual, RESIDUAL), random(B, S, W))


@pytest.mark.parametrize("cutoff", [-0.5, 0.0, 1.6448])
def test_a_gate_that_is_cut_off(cutoff):
    spec = replace(NETWORK, activation=Activation.RELU, cutoff=cutoff)
    module = txmodels.feedforward.FeedForward(spec)
    [y] = check(module, partial(txgraphs.feedforward.feed_forward, spec), random(B, S, W))
    with torch.no_grad():
        gate = module.gate(random(B, S, W))
        bound = gate.mean(-1, keepdim=True) + cutoff * gate.std(-1, keepdim=True, unbiased=False)
        expected = module.down((gate - bound).clamp(min=0) * module.up(random(B, S, W)))
    torch.testing.assert_close(torch.from_numpy(y), expected, atol=1e-5, rtol=1e-5)


def test_ids_beyond_the_table_read_its_first_row():
    spec = LayerInputsSpec(20, replace(NORM, size=P), partial=True)
    module = txmodels.layer_inputs.LayerInputs(spec, W, 2)
    ids, first = torch.tensor([[3, 19, 20, 31]]), torch.tensor([[3, 19, 0, 0]])
    function = partial(txgraphs.layer_inputs.layer_inputs, spec, W, 2)
    [inputs] = check(module, function, ids, random(1, 4, W))
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(inputs), module(first, random(1, 4, W)))


def blocks_of(spec: BlockSpec, cache: Cache):
    """A layer with keys of its own and one that reads another's: module, function and inputs of each."""
    length = T if cache == Cache.STATIC else T - S
    past, lengths = random(B, K, length, H), torch.full((B,), T - S)
    cached = {"cache_lengths": lengths if cache == Cache.STATIC else None, "past_k": past, "past_v": past + 1}
    yield (
        txmodels.block.DecoderBlock(spec, cache),
        partial(txgraphs.block.decoder_block, spec, False, cache),
        (None,),
        cached,
    )
    shared = replace(spec, attention=SharedAttentionSpec(PLAIN, 0))
    keys = random(B, K, T, H)
    yield (
        txmodels.block.SharedBlock(shared, cache),
        partial(txgraphs.block.shared_block, shared, False),
        (),
        {"k": keys, "v": keys + 1},
    )


VARIANTS = {
    "vectors": BLOCK,
    "unscaled": replace(BLOCK, streams=KINDS["two"]),
    "residual alone": replace(BLOCK, streams=None),
    "no residual": replace(BLOCK, augmented_residual=None),
}


@pytest.mark.parametrize("cache", Cache)
@pytest.mark.parametrize("spec", VARIANTS.values(), ids=VARIANTS)
def test_blocks(spec, cache):
    x = random(B, S, W) if spec.streams is None else random(B, S, spec.streams.count, W)
    for module, function, cross, named in blocks_of(spec, cache):
        context = {"mask": mask_of(), "cos": None, "sin": None, "layer_input": random(B, S, P)}
        check(module, function, x, *cross, **context, **named)


@pytest.mark.parametrize("spec", VARIANTS.values(), ids=VARIANTS)
def test_blocks_of_tokens_asked_for(spec):
    """All vectors, the residual and the layer's own input are those of the same tokens."""
    x = random(B, S, W) if spec.streams is None else random(B, S, spec.streams.count, W)
    for module, function, cross, named in blocks_of(spec, Cache.STATIC):
        context = {"cos": None, "sin": None, "layer_input": random(B, S, P), **named}
        picked = context | {"mask": rows_of(mask_of(), ASKED, 2), "logits_indices": ASKED}
        y, *_ = check(module, function, x, *cross, **picked)
        with torch.no_grad():
            every, *_ = seeded(module)(x, *cross, mask=mask_of(), **context)
        assert abs(y - rows_of(every, ASKED, 1).numpy()).max() < 1e-5


def test_the_first_vector_gets_no_input_of_the_layer():
    """It is added to the others alone (Gemma Team 2025)."""
    module, _, cross, named = next(blocks_of(BLOCK, Cache.DYNAMIC))
    x, context = random(B, S, 3, W), {"mask": mask_of(), "cos": None, "sin": None, **named}
    with torch.no_grad():
        one, other = (
            seeded(module)(x, *cross, layer_input=random(B, S, P) * factor, **context)[0]
            for factor in (1, -1)
        )
    assert torch.equal(one[:, :, 0], other[:, :, 0])
    assert not torch.allclose(one[:, :, 1:], other[:, :, 1:])
