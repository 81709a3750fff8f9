"""The encoder's graph before a decoder, over types of tokens, which no family has there yet."""

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import onnxruntime
import torch
from helpers.twins import integers, seeded, stored
from txgraphs.model import models
from txmodels.model import model as transformer

from txexport.contracts import STATIC
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

B, S, W, V = 3, 6, 16, 31
NORM, FEED_FORWARD = NormSpec(W, 1e-5), FeedForwardSpec(W, 24, Activation.GELU)
BOTH = AttentionSpec(W, 4, 4, 4, causal=False)
ENCODER = EmbeddingSpec(V, W, PositionSpec(PositionKind.LEARNED, 40), type_vocab_size=2)
DECODER = BlockSpec(replace(BOTH, causal=True), FEED_FORWARD, NORM, NormPlacement.POST, cross_attention=BOTH)
SPEC = EncoderDecoderSpec(
    TextStackSpec(ENCODER, (BlockSpec(BOTH, FEED_FORWARD, NORM, NormPlacement.POST),), 2),
    TextStackSpec(replace(ENCODER, type_vocab_size=0), (DECODER,), 2),
    HeadSpec(HeadKind.CAUSAL_LM),
)


def test_types_of_tokens_reach_the_encoder():
    module = seeded(transformer(SPEC))
    graph = models(SPEC, STATIC, lambda role: stored(module.named_parameters()))["encoder_model"]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    model = ir.to_proto(graph.model("test")).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    inputs = {
        "input_ids": integers(V, B, S),
        "attention_mask": torch.ones(B, S, dtype=torch.int64).tril(3),
        "token_type_ids": integers(2, B, S),
    }
    result = session.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
    with torch.no_grad():
        expected = module.encode(**inputs)
        other = module.encode(**inputs | {"token_type_ids": 1 - inputs["token_type_ids"]})
    for port, array in zip(session.get_outputs(), result, strict=True):
        assert np.abs(array - expected[port.name].numpy()).max() <= 1e-5, port.name
    assert np.abs(result[0] - other["last_hidden_state"].numpy()).max() > 1e-2
