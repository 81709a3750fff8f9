"""A decoder's graph with inputs_embeds and position ids, in place of input ids and the cache's lengths."""

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
import torch
from helpers.twins import integers, random, seeded, stored
from txgraphs.model import models
from txmodels.model import model as transformer

from txexport.contracts import STATIC, names
from txexport.contracts.contract import floats, ints
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    RotarySpec,
    TextStackSpec,
)

B, S, C, W, V = 2, 5, 9, 16, 31
NORM = NormSpec(W, 1e-5, NormKind.RMS)
ATTENTION = AttentionSpec(W, 4, 2, 4, causal=True, bias=False, rotary=RotarySpec((1.0, 0.1)))
FEED_FORWARD = FeedForwardSpec(W, 24, Activation.SILU, bias=False, gated=True)
EMBEDDING = EmbeddingSpec(V, W, PositionSpec(PositionKind.NONE, 64))
STACK = TextStackSpec(EMBEDDING, (BlockSpec(ATTENTION, FEED_FORWARD, NORM, NormPlacement.PRE),), 2, NORM)
SPEC = DecoderSpec(STACK, HeadSpec(HeadKind.CAUSAL_LM, tied=False))
ROWS = names.BATCH_SIZE, names.SEQUENCE_LENGTH
CONTRACT = replace(
    STATIC,
    step=(
        floats(names.INPUTS_EMBEDS, *ROWS, W),
        *(port for port in STATIC.step if port.name != names.INPUT_IDS),
        ints(names.POSITION_IDS, *ROWS),
    ),
)
FILLED = torch.tensor([0, 3])


@pytest.fixture(scope="module")
def module():
    return seeded(transformer(SPEC))


@pytest.fixture(scope="module")
def session(module):
    (graph,) = models(SPEC, CONTRACT, lambda role: stored(module.named_parameters())).values()
    assert "decoder.embedding.word.weight" not in graph.uses
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    model = ir.to_proto(graph.model("test")).SerializeToString()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def past_of(module) -> list[tuple[torch.Tensor, ...]]:
    """Keys and values (B,K,C,H) of each layer, random in every slot."""
    layers = enumerate(module.empty_past(B, C))
    return [tuple(random(*pair.shape) + layer for pair in both) for layer, both in layers]


def scores(session, module, vectors: torch.Tensor, position_ids: torch.Tensor) -> tuple[np.ndarray, ...]:
    """Logits (B,S,V) of the graph and of the module, over the same past."""
    past = past_of(module)
    picks = torch.arange(S).expand(B, S)
    feeds = {names.INPUTS_EMBEDS: vectors, names.CACHE_LENGTHS: FILLED, names.LOGITS_INDICES: picks}
    feeds[names.POSITION_IDS] = position_ids
    for layer, pair in enumerate(past):
        feeds |= zip((f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"), pair, strict=True)
    result = session.run(["logits"], {name: tensor.numpy() for name, tensor in feeds.items()})[0]
    ids = torch.zeros(B, S, dtype=torch.int64)
    given = {"cache_lengths": FILLED, "inputs_embeds": vectors, "position_ids": position_ids}
    with torch.no_grad():
        expected, _ = module.decode(ids, past, picks, **given)
    return result, expected.numpy()


def test_vectors_and_positions_that_are_given(session, module):
    """Positions other than the slots', as of the patches of an image."""
    position_ids = torch.tensor([[0, 7, 7, 8, 2], [11, 3, 3, 3, 4]])
    result, expected = scores(session, module, random(B, S, W), position_ids)
    assert np.abs(result - expected).max() <= 1e-5
    moved, _ = scores(session, module, random(B, S, W), position_ids + torch.arange(S))
    assert np.abs(moved - expected).max() > 1e-3


def test_vectors_of_words_score_as_their_ids(session, module):
    ids = integers(V, B, S)
    position_ids = FILLED[:, None] + torch.arange(S)
    result, _ = scores(session, module, module.decoder.embedding.word(ids).detach(), position_ids)
    past = past_of(module)
    with torch.no_grad():
        expected, _ = module.decode(ids, past, torch.arange(S).expand(B, S), cache_lengths=FILLED)
    assert np.abs(result - expected.numpy()).max() <= 1e-5
