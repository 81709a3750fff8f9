"""Layers of a Conformer: twins over every switch, and the originals' layers."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.conformer_block
import txgraphs.conformer_convolution
import txgraphs.inputs.frames
import txgraphs.inputs.subsampled
import txgraphs.relative_key_attention
import txgraphs.rotated_input_attention
import txmodels.conformer_block
import txmodels.conformer_convolution
import txmodels.inputs.frames
import txmodels.inputs.subsampled
import txmodels.mask
import txmodels.position
import txmodels.relative_key_attention
import txmodels.rotated_input_attention
import txmodels.transformer_xl_attention
from helpers.sparse import LENGTHS, SIZES, H, N, W, padding
from helpers.twins import check, random, seeded
from transformers.models.parakeet import modeling_parakeet as parakeet
from transformers.models.parakeet.configuration_parakeet import ParakeetEncoderConfig
from transformers.models.wav2vec2_bert import modeling_wav2vec2_bert as w2v_bert
from transformers.models.wav2vec2_bert.configuration_wav2vec2_bert import Wav2Vec2BertConfig

from txexport.families._rope import plain_frequencies
from txexport.parts.inputs import OF_SPEC
from txexport.spec import (
    Activation,
    AttentionSpec,
    BatchNormSpec,
    BlockSpec,
    ConvolutionModuleSpec,
    FeedForwardSpec,
    FramesSpec,
    NormPlacement,
    NormSpec,
    RelativeKeyAttentionSpec,
    RotarySpec,
    RotatedInputAttentionSpec,
    SinusoidVectorsSpec,
    SubsampledSpec,
    TransformerXLAttentionSpec,
    attention_parameters,
    parameters,
)

NORM, BATCH_NORM = NormSpec(W, 1e-3), BatchNormSpec(W, 1e-5)
KEYS = RelativeKeyAttentionSpec(*SIZES, left=4, right=2)
DISTANCES = TransformerXLAttentionSpec(*SIZES, segmented=False, bias=True)
ROTATED = RotatedInputAttentionSpec(W, N, RotarySpec((1.0, 0.3, 0.01)))
SINUSOIDS = SinusoidVectorsSpec(plain_frequencies(10000.0, W), interleaved=True)
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
MODULES = {
    "causal": ConvolutionModuleSpec(W, 5, Activation.SILU, NORM, causal=True),
    "batch norm": ConvolutionModuleSpec(W, 3, Activation.SILU, batch_norm=BATCH_NORM),
    "biases": ConvolutionModuleSpec(W, 5, Activation.RELU, batch_norm=BATCH_NORM, bias=True),
    "unmasked": ConvolutionModuleSpec(W, 5, Activation.GELU, batch_norm=BATCH_NORM, masked=False),
}


def shapes_of(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


def block_spec(attention, convolution: ConvolutionModuleSpec, activation: Activation) -> BlockSpec:
    feed_forward = FeedForwardSpec(W, 50, activation)
    return BlockSpec(attention, feed_forward, NORM, NormPlacement.PRE, convolution=convolution)


def context(spec, mask: torch.Tensor, x: torch.Tensor) -> dict:
    """The inputs of attention but the hidden states."""
    pairs = {"mask": txmodels.mask.padding_mask(mask, mask)}
    if isinstance(spec, AttentionSpec):
        return pairs | {"cos": None, "sin": None}
    if isinstance(spec, RotatedInputAttentionSpec):
        order = torch.arange(x.shape[1]).expand(len(x), -1)
        return pairs | dict(zip(("cos", "sin"), txmodels.position.rotation(spec.rotary, order), strict=True))
    if isinstance(spec, RelativeKeyAttentionSpec):
        return pairs | {"of_query": txmodels.relative_key_attention.clipped_distances(spec, x)}
    vectors, of_query = txmodels.transformer_xl_attention.sinusoid_vectors(SINUSOIDS, mask)
    return pairs | {"vectors": vectors, "of_query": of_query}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("left", "right"), [(4, 2), (0, 3), (50, 50)])
def test_clipped_distances(left, right, length):
    spec = replace(KEYS, left=left, right=right)
    x = random(2, length, W)
    module = partial(txmodels.relative_key_attention.clipped_distances, spec)
    [of_query] = check(module, txgraphs.relative_key_attention.clipped_distances(spec), x)
    for query in range(length):
        for key in range(length):
            distance = min(max(key - query, -left), right) + left
            assert of_query[query, key] == query * (left + right + 1) + distance


@WEIGHTED
@pytest.mark.parametrize("length", LENGTHS)
def test_relative_keys(length, weighted):
    module = txmodels.relative_key_attention.RelativeKeyAttention(KEYS, weighted)
    assert shapes_of(module) == attention_parameters.relative_key_attention(KEYS)
    x = random(3, length, W)
    function = partial(txgraphs.relative_key_attention.relative_key_attention, KEYS, weighted)
    check(module, function, x, **context(KEYS, padding(length), x))


@WEIGHTED
@pytest.mark.parametrize("length", LENGTHS)
def test_distances_without_segments(length, weighted):
    module = txmodels.transformer_xl_attention.TransformerXLAttention(DISTANCES, weighted)
    assert shapes_of(module) == attention_parameters.transformer_xl_attention(DISTANCES)
    x = random(3, length, W)
    function = partial(txgraphs.transformer_xl_attention.transformer_xl_attention, DISTANCES, weighted)
    check(module, function, x, **context(DISTANCES, padding(length), x))


@WEIGHTED
@pytest.mark.parametrize("length", LENGTHS)
def test_rotated_inputs(length, weighted):
    module = txmodels.rotated_input_attention.RotatedInputAttention(ROTATED, weighted)
    assert shapes_of(module) == attention_parameters.rotated_input_attention(ROTATED)
    x = random(3, length, W)
    function = partial(txgraphs.rotated_input_attention.rotated_input_attention, ROTATED, weighted)
    check(module, function, x, **context(ROTATED, padding(length), x))


@WEIGHTED
@pytest.mark.parametrize("kind", [KEYS, DISTANCES, ROTATED], ids=lambda kind: type(kind).__name__)
def test_without_a_mask(kind, weighted):
    """A recording read alone by a model whose extractor makes no mask."""
    spec = block_spec(kind, MODULES["unmasked"], Activation.GELU)
    module = txmodels.conformer_block.ConformerBlock(spec, weighted)
    x = random(3, 7, W)
    inputs = context(kind, padding(7), x) | {"mask": None}
    check(module, partial(txgraphs.conformer_block.conformer_block, spec, weighted), x, None, **inputs)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("length", [1, 3, 13])
def test_convolution(length, kind, masked):
    spec = MODULES[kind]
    module = txmodels.conformer_convolution.ConformerConvolution(spec)
    assert shapes_of(module) == parameters.convolution_module(spec)
    mask = padding(length) if masked else None
    function = partial(txgraphs.conformer_convolution.conformer_convolution, spec)
    check(module, function, random(3, length, W), mask)


def test_padding_does_not_reach_the_convolution():
    """Else a recording's text would depend on what it is batched with."""
    module = seeded(txmodels.conformer_convolution.ConformerConvolution(MODULES["batch norm"]))
    mask = torch.tensor([[1, 1, 1, 0, 0]])
    x = random(1, 5, W)
    with torch.no_grad():
        first, second = module(x, mask), module(x * mask[:, :, None] + 7 * (1 - mask[:, :, None]), mask)
    assert torch.equal(first[:, :3], second[:, :3])


@WEIGHTED
@pytest.mark.parametrize(
    "attention", [KEYS, DISTANCES, ROTATED, AttentionSpec(W, N, N, H, causal=False)], ids=str
)
def test_block(attention, weighted):
    spec = block_spec(attention, MODULES["batch norm"], Activation.SILU)
    module = txmodels.conformer_block.ConformerBlock(spec, weighted)
    assert shapes_of(module) == parameters.block(spec)
    x, mask = random(3, 13, W), padding(13)
    function = partial(txgraphs.conformer_block.conformer_block, spec, weighted)
    check(module, function, x, mask, **context(attention, mask, x))


def test_frames():
    spec = FramesSpec(W, 10, NormSpec(10, 1e-5))
    module = txmodels.inputs.frames.FramesEmbedding(spec)
    assert shapes_of(module) == OF_SPEC[FramesSpec].parameters(spec)
    check(module, partial(txgraphs.inputs.frames.frames_embedding, spec), random(3, 7, 10), padding(7))


@pytest.mark.parametrize("lengths", [[1, 1], [9, 40], [23, 8], [64, 57]], ids=str)
@pytest.mark.parametrize(
    "spec",
    [
        SubsampledSpec(W, 16, 5, 3, scale=3.5),
        SubsampledSpec(W, 10, 3, 1, kernel=5),
        SubsampledSpec(W, 9, 2, 2, 3, 3),
    ],
    ids=str,
)
def test_subsampled(spec, lengths):
    module = txmodels.inputs.subsampled.SubsampledEmbedding(spec)
    assert shapes_of(module) == OF_SPEC[SubsampledSpec].parameters(spec)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    function = partial(txgraphs.inputs.subsampled.subsampled_embedding, spec)
    x, real = check(module, function, random(2, max(lengths), spec.num_mel_bins), mask)
    assert real.sum(1).tolist() == [spec.vectors(length) for length in lengths]
    assert x.shape == (2, spec.vectors(max(lengths)), W)


def copy_parameters(module: torch.nn.Module, original: torch.nn.Module, names: dict[str, str]) -> None:
    """Set parameters of `module` to tensors of `original`, of the same numbers."""
    tensors = original.state_dict()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            for ours, theirs in names.items():
                if name.startswith(ours):
                    parameter.copy_(tensors[theirs + name.removeprefix(ours)].reshape(parameter.shape))


CONVOLUTION = {
    "pointwise_in": "pointwise_conv1",
    "depthwise.": "depthwise_conv.",
    "pointwise_out": "pointwise_conv2",
}
BATCH = {f"depthwise_norm.{name}": f"norm.{name}" for name in ("weight", "bias")}
BATCH |= {"depthwise_norm.mean": "norm.running_mean", "depthwise_norm.variance": "norm.running_var"}


@pytest.mark.parametrize("length", LENGTHS)
def test_is_w2v_bert_s(length):
    """Complete outputs of its convolution module and its attention at real frames, with padding."""
    config = Wav2Vec2BertConfig(
        **{"hidden_size": W, "num_attention_heads": N, "conv_depthwise_kernel_size": 5},
        **{"left_max_position_embeddings": 4, "right_max_position_embeddings": 2, "layer_norm_eps": 1e-3},
    )
    original = seeded(w2v_bert.Wav2Vec2BertConvolutionModule(config))
    attention = seeded(w2v_bert.Wav2Vec2BertSelfAttention(config))
    ours = txmodels.conformer_convolution.ConformerConvolution(replace(MODULES["causal"], activation="silu"))
    keys = txmodels.relative_key_attention.RelativeKeyAttention(KEYS)
    copy_parameters(ours, original, CONVOLUTION | {"depthwise_norm": "depthwise_layer_norm"})
    names = {"q": "linear_q", "k": "linear_k", "v": "linear_v", "o": "linear_out"}
    copy_parameters(keys, attention, names | {"distance": "distance_embedding"})
    x, mask = random(3, length, W), padding(length)
    real = mask.bool()
    with torch.no_grad():
        expected = original(x, mask)
        result = ours(original.layer_norm(x), mask)
        assert np.allclose(result[real], expected[real], rtol=0, atol=2e-6)
        bias = torch.zeros(3, 1, 1, length).masked_fill(~real[:, None, None], -1e9)
        expected, _ = attention(x, bias)
        result, *_ = keys(x, **context(KEYS, mask, x))
    assert np.allclose(result[real], expected[real], rtol=0, atol=2e-6)


@pytest.mark.parametrize("length", LENGTHS)
def test_is_parakeet_s(length):
    """Complete outputs of its convolution module and its attention at real frames, with padding."""
    config = ParakeetEncoderConfig(hidden_size=W, num_attention_heads=N, conv_kernel_size=5)
    config._attn_implementation = "eager"
    original = seeded(parakeet.ParakeetEncoderConvolutionModule(config))
    original.norm.running_mean.copy_(random(W))
    original.norm.running_var.copy_(random(W).abs() + 0.5)
    attention = seeded(parakeet.ParakeetEncoderAttention(config, 0))
    spec = replace(MODULES["biases"], activation=Activation.SILU)
    ours = txmodels.conformer_convolution.ConformerConvolution(spec)
    distances = txmodels.transformer_xl_attention.TransformerXLAttention(DISTANCES)
    copy_parameters(ours, original, CONVOLUTION | BATCH)
    names = {name: f"{name}_proj" for name in "qkvo"}
    names = {f"{ours}.": f"{theirs}." for ours, theirs in names.items()}
    names |= {"content_bias": "bias_u", "position_bias": "bias_v", "k_position": "relative_k_proj"}
    copy_parameters(distances, attention, names)
    x, mask = random(3, length, W), padding(length)
    real = mask.bool()
    pairs = (real[:, :, None] & real[:, None])[:, None]
    with torch.no_grad():
        expected = original(x, pairs)
        result = ours(x, mask)
        assert np.allclose(result[real], expected[real], rtol=0, atol=2e-6)
        positions = parakeet.ParakeetEncoderRelPositionalEncoding(config)(x)
        expected, _ = attention(x, positions, pairs)
        result, *_ = distances(x, **context(DISTANCES, mask, x))
    assert np.allclose(result[real], expected[real], rtol=0, atol=4e-6)
