"""Each component alone: the graph function in ONNX Runtime against the PyTorch module, for every option."""

from dataclasses import replace
from functools import partial

import numpy as np
import onnx_ir as ir
import pytest
import torch
import txgraphs.activation
import txgraphs.adapted_linear
import txgraphs.adapter
import txgraphs.architectures.dual_encoder
import txgraphs.attention
import txgraphs.attention_pool
import txgraphs.block
import txgraphs.experts
import txgraphs.feedforward
import txgraphs.gated_convolution
import txgraphs.grouped_linear
import txgraphs.heads.boxes
import txgraphs.heads.causal_lm
import txgraphs.heads.masked_lm
import txgraphs.heads.pick
import txgraphs.heads.sequence
import txgraphs.heads.spans
import txgraphs.heads.speaker
import txgraphs.heads.tokens
import txgraphs.heads.vectors
import txgraphs.inputs.log_mel
import txgraphs.inputs.patches
import txgraphs.inputs.spectrogram
import txgraphs.inputs.tokens
import txgraphs.inputs.waveform
import txgraphs.inputs.waveform_stem
import txgraphs.layer_sum
import txgraphs.length_adapter
import txgraphs.linear
import txgraphs.mask
import txgraphs.norm
import txgraphs.position
import txgraphs.squeeze
import txmodels.activation
import txmodels.adapted_linear
import txmodels.adapter
import txmodels.architectures.dual_encoder
import txmodels.attention
import txmodels.attention_pool
import txmodels.block
import txmodels.experts
import txmodels.feedforward
import txmodels.gated_convolution
import txmodels.grouped_linear
import txmodels.heads.boxes
import txmodels.heads.causal_lm
import txmodels.heads.masked_lm
import txmodels.heads.pick
import txmodels.heads.sequence
import txmodels.heads.spans
import txmodels.heads.speaker
import txmodels.heads.tokens
import txmodels.heads.vectors
import txmodels.inputs.log_mel
import txmodels.inputs.patches
import txmodels.inputs.spectrogram
import txmodels.inputs.tokens
import txmodels.inputs.waveform
import txmodels.inputs.waveform_stem
import txmodels.layer_sum
import txmodels.length_adapter
import txmodels.linear
import txmodels.mask
import txmodels.norm
import txmodels.position
import txmodels.squeeze
from helpers.twins import (
    ABSENT,
    check,
    check_asked,
    integers,
    lengths_of,
    over_slots,
    random,
    seeded,
)
from transformers import Cohere2MoeConfig, Llama4TextConfig
from transformers.models.cohere2_moe.modeling_cohere2_moe import Cohere2MoeTopKRouter
from transformers.models.falcon.modeling_falcon import build_alibi_tensor
from transformers.models.llama4.modeling_llama4 import Llama4TextMoe
from transformers.models.phimoe.modeling_phimoe import sparsemixer
from txgraphs._nodes import Received

from txexport.families._alibi import geometric
from txexport.formats import FLOAT32
from txexport.parts import vectors
from txexport.parts.heads import head_of
from txexport.parts.inputs import OF_SPEC
from txexport.spec import (
    Activation,
    AdapterSpec,
    AlibiSpec,
    AttentionPoolSpec,
    AttentionSpec,
    BlockSpec,
    BoxesSpec,
    Cache,
    ConvolutionNorm,
    ConvolutionSpec,
    EmbeddingSpec,
    ExpertsSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    LengthAdapterSpec,
    LogMelSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PatchSpec,
    Pick,
    PositionKind,
    PositionNorm,
    PositionSpec,
    RelativeSpec,
    RotarySpec,
    RoundedAlibiSpec,
    SpectrogramSpec,
    SqueezeSpec,
    TimeDelaySpec,
    VectorSpec,
    WaveformSpec,
    WaveformStemSpec,
    parameters,
)
from txexport.spec.attention import Reach

B, S, P, C, E, W, N, H, F, V = 3, 5, 4, 12, 6, 24, 4, 6, 50, 31

ASKED = torch.tensor([[4, 0], [1, 1], [2, 3]])  # (B,L): selected new tokens
NORM = NormSpec(W, 1e-3)


ROTARY = {
    "whole": RotarySpec((1.0, 0.3, 0.01)),
    "partial": RotarySpec((1.0, 0.3), scale=1.2),
    "interleaved": RotarySpec((1.0, 0.3, 0.01), interleaved=True),
    "long": RotarySpec((1.0, 0.3, 0.01), scale=1.2, long_frequencies=(0.5, 0.1, 0.02), short_length=7),
}

HEAD_NORM = NormSpec(H, 1e-3, NormKind.RMS)


def attention_spec(heads: int = N, **switches) -> AttentionSpec:
    return AttentionSpec(W, N, heads, H, **{"causal": True} | switches)


ATTENTIONS = {
    "plain": attention_spec(),
    "grouped queries": attention_spec(2),
    "one key head": attention_spec(1, scale=0.7),
    "no bias": attention_spec(2, bias=False, output_bias=False),
    "no output bias": attention_spec(output_bias=False),
    "no input bias": attention_spec(bias=False, scale=1.0),
    "rotary": attention_spec(2, rotary=ROTARY["whole"]),
    "partly rotary": attention_spec(rotary=ROTARY["partial"]),
    "interleaved rotary": attention_spec(rotary=ROTARY["interleaved"]),
    "head norm": attention_spec(2, head_norm=HEAD_NORM),
    "norm of all heads": attention_spec(
        2, head_norm=HEAD_NORM, joint_norm=True, rotary=ROTARY["whole"], bias=False
    ),
    "rotary after head norm": attention_spec(2, head_norm=HEAD_NORM, rotary=ROTARY["whole"], bias=False),
    "head norm after rotary": attention_spec(
        2, head_norm=HEAD_NORM, rotary=ROTARY["partial"], rotated_norm=True
    ),
    "clipped": attention_spec(2, rotary=ROTARY["whole"], clip=0.4),
    "window": attention_spec(2, window=3),
    "chunks": attention_spec(2, window=3, chunked=True),
    "three heads a key": AttentionSpec(W, 6, 2, H, causal=True),
    "three heads a key in a window": AttentionSpec(W, 6, 2, H, causal=True, window=3),
    "whole": attention_spec(2, causal=False, unmasked=True),
    "softcap": attention_spec(2, softcap=1.5),
    "softcap in a window": attention_spec(1, softcap=0.7, window=3, scale=0.9),
    "projections in groups": attention_spec(2, causal=False, q_groups=3, k_groups=2, v_groups=4, o_groups=6),
    "sinks": attention_spec(2, sinks=True, rotary=ROTARY["whole"]),
    "gates": attention_spec(2, gated_output=True),
    "gates of heads": attention_spec(2, gated_output=True, head_gates=True, rotary=ROTARY["whole"]),
    "sinks in a window": attention_spec(1, sinks=True, window=3),
    "biased": attention_spec(scale=1.0, has_position_bias=True, bias=False, output_bias=False),
}
CROSSING = {
    **{name: ATTENTIONS[name] for name in ("whole", "plain", "grouped queries", "one key head", "no bias")},
    **{name: ATTENTIONS[name] for name in ("no output bias", "no input bias")},
    "another source": attention_spec(2, causal=False, source_size=W + 5),
    "softcap": ATTENTIONS["softcap"],
}


def carried(spec: AttentionSpec, mask: torch.Tensor) -> torch.Tensor:
    """`mask` in the form that `spec` takes."""
    if not spec.has_position_bias:
        return mask
    return txmodels.mask.biased_mask(random(B, N, *mask.shape[2:]), mask)


def turns(spec: AttentionSpec, new: int = S):
    """Cosines and sines for `spec` of `new` tokens a row, or None."""
    if spec.rotary is None:
        return {"cos": ABSENT, "sin": ABSENT}
    cos, sin = txmodels.position.rotation(spec.rotary, integers(9, B, new))
    return {"cos": cos, "sin": sin}


@pytest.mark.parametrize("bias", [True, False])
def test_linear(bias):
    check(txmodels.linear.Linear(W, F, bias), partial(txgraphs.linear.linear, bias), random(B, S, W))


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_grouped_linear(bias, groups):
    module = txmodels.grouped_linear.grouped_linear(W, F + F % groups, bias, groups)
    check(module, partial(txgraphs.grouped_linear.grouped_linear, W, bias, groups), random(B, S, W))


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_adapted_linear(bias, rank):
    module = txmodels.adapted_linear.adapted_linear(W, F, bias, 1, rank)
    check(module, partial(txgraphs.adapted_linear.adapted_linear, W, bias, 1, rank), random(B, S, W))


@pytest.mark.parametrize("kind", [kind for kind in Activation if kind is not Activation.PRELU])
def test_activation(kind):
    check(txmodels.activation.activation(kind), txgraphs.activation.activation(kind), 3 * random(B, S, W))


@pytest.mark.parametrize(("kind", "bias"), [("layer", True), ("layer", False), ("rms", True), ("none", True)])
@pytest.mark.parametrize("eps", [1e-12, 1e-5, 0.5])
def test_norm(eps, kind, bias):
    spec = NormSpec(W, 1 if kind == "none" else eps, NormKind(kind), bias)
    check(txmodels.norm.Norm(spec), partial(txgraphs.norm.norm, spec), random(B, S, W))


@pytest.mark.parametrize("start", [[0], [3], [0, 4, 2]])
def test_positions(start):
    found = check(
        txmodels.position.positions, txgraphs.position.positions, integers(V, B, S), torch.tensor(start)
    )
    assert found[0].tolist() == [list(range(first, first + S)) for first in start]


def test_asked_positions():
    twin, function = txmodels.position.asked_positions, txgraphs.position.asked_positions
    assert check(twin, function, ASKED, torch.tensor([0, 4, 2]))[0].tolist() == [[4, 0], [5, 5], [4, 5]]


def test_picked():
    found = check(txmodels.position.picked, txgraphs.position.picked, random(B, S, W), ASKED)[0]
    assert [row[0] for row in found[1]] == [float(random(B, S, W)[1, 1, 0])] * 2


MASK = torch.tensor([[1] * 9, [0] * 4 + [1] * 5, [1, 0, 1, 1, 1, 1, 1, 0, 0]])


@pytest.mark.parametrize("padding", [0, 7])
def test_token_positions(padding):
    ids = torch.tensor([[5, padding, 6, 9, padding], [padding, padding, 3, 4, 8]])
    module = partial(txmodels.position.token_positions, padding)
    found = check(module, txgraphs.position.token_positions(padding), ids)
    assert found[0].tolist() == [[1, 0, 2, 3, 0], [0, 0, 1, 2, 3]]


@pytest.mark.parametrize("length", [1, 5, 9])
def test_padding_mask(length):
    check(txmodels.mask.padding_mask, txgraphs.mask.padding_mask, MASK, integers(V, B, length))


@pytest.mark.parametrize("window", [1, 3, 20])
def test_near_mask(window):
    module = partial(txmodels.mask.near_mask, window)
    order = torch.arange(9)[None]
    found = check(module, txgraphs.mask.near_mask(window), MASK, integers(V, 3, 9), order)[0]
    assert found[0, 0].sum(axis=1).tolist() == [
        min(i, window - 1) + min(8 - i, window - 1) + 1 for i in range(9)
    ]


REACHES = [Reach(None), *(Reach(window, chunked) for window in (1, 3, 20) for chunked in (False, True))]


@pytest.mark.parametrize("reach", REACHES)
@pytest.mark.parametrize("length", [1, 5, 9])
def test_causal_mask(length, reach):
    module = partial(txmodels.mask.causal_mask, reach)
    check(module, txgraphs.mask.causal_mask(reach), MASK, integers(V, B, length), MASK.cumsum(1))


def test_order_from_the_first_token():
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 0, 1]])
    order = torch.arange(4).expand(3, 4)
    [begun] = check(txmodels.mask.from_first_token, txgraphs.mask.from_first_token, mask, order)
    assert begun.tolist() == [[0, 1, 2, 3], [-2, -1, 0, 1], [-1, 0, 1, 2]]


@pytest.mark.parametrize("reach", REACHES)
def test_cache_mask(reach):
    module = partial(txmodels.mask.cache_mask, reach)
    places = torch.tensor([2, 0, 7])[:, None] + torch.arange(S)
    found = check(module, txgraphs.mask.cache_mask(reach), places, random(B, 2, C, H))[0]
    window = reach.window or C
    seen = [
        [place % window + 1 if reach.chunked else min(window, place + 1) for place in row]
        for row in places.tolist()
    ]
    assert found.sum(axis=3)[:, 0].tolist() == seen


@pytest.mark.parametrize("window", [1, 3, 20])
@pytest.mark.parametrize("lengths", [[2, 0, 7], [6, 5, 7]])
def test_near_slots(lengths, window):
    slots = torch.tensor(lengths)[:, None] + torch.arange(2)
    first, end = max(min(lengths) - window + 1, 0), max(lengths) + 2
    module = partial(txmodels.mask.near_slots, window)
    results = check(module, txgraphs.mask.near_slots(window), slots, random(B, 2, 30, H))
    assert [one.tolist() for one in results] == [[first], [end], [2 * (end - first) <= 30]]


def test_biased_mask():
    check(txmodels.mask.biased_mask, txgraphs.mask.biased_mask, random(B, N, S, S), random(B, 1, S, S) > 0)


RELATIVE = [RelativeSpec(8, 20, False), RelativeSpec(8, 20, True), RelativeSpec(32, 128, True)]


@pytest.mark.parametrize("spec", RELATIVE, ids=str)
def test_relative_bias(spec):
    module = txmodels.position.RelativeBias(spec, N)
    for rows in (B, 1):
        arguments = integers(200, B, S), integers(200, rows, 9)
        check(module, partial(txgraphs.position.relative_bias, spec), *arguments)


def test_alibi():
    spec = AlibiSpec((0.5, 0.25, 0.06, 0.01))
    for rows in (B, 1):
        arguments = integers(200, B, S), integers(200, rows, 9)
        check(
            partial(txmodels.position.alibi, spec),
            txgraphs.position.alibi(spec, ir.DataType.FLOAT),
            *arguments,
        )


@pytest.mark.parametrize("shape", [(B, S), (1, 9)], ids=str)
def test_rounded_alibi(shape):
    spec = RoundedAlibiSpec((0.7, 0.3, 0.06, 0.01), 700, 0.3)
    keys = integers(800, *shape) - 1  # what hides before the first and behind the last is masked
    check(
        partial(txmodels.position.rounded_alibi, spec),
        txgraphs.position.rounded_alibi(spec, ir.DataType.FLOAT),
        integers(700, B, S),
        keys,
    )


@pytest.mark.parametrize("heads", [1, 6, 8, 32, 71])
def test_rounded_alibi_is_that_of_the_original(heads):
    """Bit for bit: with one rounding less, the distribution is not that of training."""
    spec = RoundedAlibiSpec(geometric(heads), 2048)
    original = build_alibi_tensor(torch.ones(1, 2048, dtype=torch.long), heads, torch.float32)  # (N, 1, S)
    assert torch.equal(torch.tensor(spec.bias_of_position()), original[:, 0])


@pytest.mark.parametrize("kind", ROTARY)
def test_rotation(kind):
    module = partial(txmodels.position.rotation, ROTARY[kind])
    check(module, txgraphs.position.rotation(ROTARY[kind], ir.DataType.FLOAT), integers(1000, B, S))


@pytest.mark.parametrize(("last", "frequencies"), [(6, (1.0, 0.3, 0.01)), (7, (0.5, 0.1, 0.02))])
def test_rotation_takes_long_frequencies_from_the_first_position_beyond(last, frequencies):
    """For the whole batch, as LongRoPE's original does."""
    places = torch.tensor([[0, 1, 2], [last - 2, last - 1, last]])
    module = partial(txmodels.position.rotation, ROTARY["long"])
    check(module, txgraphs.position.rotation(ROTARY["long"], ir.DataType.FLOAT), places)
    cos, _ = module(places)
    assert torch.equal(cos[0, 1], torch.tensor(frequencies).cos() * 1.2)


@pytest.mark.parametrize("factored", [None, 10])
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("scale", [1.0, 3.5])
@pytest.mark.parametrize("segments", [0, 1, 2])
@pytest.mark.parametrize(
    "position",
    [
        PositionSpec(PositionKind.LEARNED, 20, 2),
        PositionSpec(PositionKind.LEARNED, 20),
        PositionSpec(PositionKind.NONE),
    ],
)
def test_embedding(position, segments, scale, normed, factored):
    norm = NormSpec(factored or W, 1e-3) if normed else None
    tasks = 3 if segments == 2 else 0
    first = norm is not None and segments == 1
    spec = EmbeddingSpec(
        vocab_size=V,
        hidden_size=W,
        position=position,
        type_vocab_size=segments,
        norm=norm,
        scale=scale,
        factored_size=factored,
        task_type_vocab_size=tasks,
        norm_first=first,
    )
    ids, places = integers(V, B, S), torch.arange(S)[None]
    types = integers(2, B, S) if segments > 1 else ABSENT
    module = txmodels.inputs.tokens.Embedding(spec)
    function = partial(txgraphs.inputs.tokens.embedding, spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[type(spec)].parameters(spec)
    check(module, function, ids, places, types, ABSENT)


@pytest.mark.parametrize("trigrams", [False, True])
@pytest.mark.parametrize("normed", [False, True])
def test_embedding_of_narrow_words(normed, trigrams):
    spec = EmbeddingSpec(
        vocab_size=V,
        hidden_size=W,
        position=PositionSpec(PositionKind.LEARNED, 20, 2),
        type_vocab_size=2,
        norm=NORM if normed else None,
        scale=3.5,
        factored_size=10,
        project_first=True,
        trigrams=trigrams,
    )
    module = txmodels.inputs.tokens.Embedding(spec)
    function = partial(txgraphs.inputs.tokens.embedding, spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[type(spec)].parameters(spec)
    check(module, function, integers(V, B, S), torch.arange(S)[None], integers(2, B, S), ABSENT)


@pytest.mark.parametrize(("dropped", "masked"), [(9, False), (9, True), (None, True)])
def test_token_dropout(dropped, masked):
    spec = EmbeddingSpec(V, W, PositionSpec(PositionKind.NONE), dropped=dropped, masked=masked)
    ids = torch.tensor([[9, 4, 5, 9, 7], [1, 2, 3, 4, 5], [8, 9, 9, 1, 2]])
    mask = torch.tensor([[1, 1, 1, 1, 0], [1] * 5, [0, 0, 1, 1, 1]])
    module = txmodels.inputs.tokens.Embedding(spec)
    function = partial(txgraphs.inputs.tokens.embedding, spec)
    check(module, function, ids, torch.arange(S)[None], ABSENT, mask)


WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


@WEIGHTED
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name, weighted):
    spec = ATTENTIONS[name]
    mask = torch.rand(B, 1, S, S, generator=torch.Generator().manual_seed(3)) < 0.6
    mask[1, 0, 2] = False  # a query that sees nothing
    mask = ABSENT if spec.unmasked else mask
    module = txmodels.attention.Attention(spec, weighted)
    function = partial(txgraphs.attention.attention, spec, weighted)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.attention(spec)
    y, *weights = check(module, function, random(B, S, W), carried(spec, mask), **turns(spec))
    assert len(weights) == weighted
    plain = seeded(txmodels.attention.Attention(spec))
    with torch.no_grad():
        expected, *_ = plain(random(B, S, W), carried(spec, mask), **turns(spec))
    assert np.abs(y - expected.numpy()).max() < 1e-5
    if weighted and not spec.unmasked:
        hidden = np.broadcast_to(~mask.numpy(), weights[0].shape)
        sees = np.broadcast_to(mask.numpy().any(axis=3), weights[0].shape[:3])
        shares = weights[0][sees].sum(axis=1)
        assert (shares < 0.95).any() if spec.sinks else shares == pytest.approx(1, abs=1e-6)
        assert not weights[0][hidden & sees[..., None]].any()


def test_grouped_queries_weigh_the_keys_that_they_share():
    """Head n reads key head n // (N/K); each of a group has its own queries."""
    spec = attention_spec(2, bias=False)
    module = seeded(txmodels.attention.Attention(spec, weighted=True))
    x, mask = random(1, S, W), torch.ones(1, 1, S, S, dtype=torch.bool)
    with torch.no_grad():
        _, weights = module(x, mask, None, None)
        q, k = module.q(x)[0].view(S, N, H), module.k(x)[0].view(S, 2, H)
    for head in range(N):
        scores = (q[:, head] @ k[:, head // 2].T * H**-0.5).softmax(dim=-1)
        assert (weights[0, head] - scores).abs().max() < 1e-6


CACHED = [name for name, spec in ATTENTIONS.items() if spec.causal]


@WEIGHTED
@pytest.mark.parametrize("past", [0, P])
@pytest.mark.parametrize("name", CACHED)
def test_dynamic_attention(name, past, weighted):
    spec = ATTENTIONS[name]
    shape = (B, spec.num_kv_heads, past, H)
    mask = torch.rand(B, 1, S, past + S, generator=torch.Generator().manual_seed(3)) < 0.6
    mask = carried(spec, mask)
    arguments = (random(B, S, W), mask, *turns(spec).values(), ABSENT, random(*shape), random(*shape) + 1)
    module = txmodels.attention.CachedAttention(spec, Cache.DYNAMIC, weighted)
    check(module, partial(txgraphs.attention.cached_attention, spec, weighted, Cache.DYNAMIC), *arguments)


@WEIGHTED
@pytest.mark.parametrize("new", [1, S])
@pytest.mark.parametrize("lengths", [[0, 0, 0], [2, 0, 7], [7, 7, 7]])
@pytest.mark.parametrize("name", CACHED)
def test_static_attention(name, lengths, new, weighted):
    spec = ATTENTIONS[name]
    shape, filled = (B, spec.num_kv_heads, C, H), torch.tensor(lengths)
    caches = random(*shape) + 3, random(*shape) + 4
    mask = ABSENT
    if weighted or not spec.maskless_static:
        mask = carried(spec, over_slots(filled, caches[0], new, spec.reach))
    context = {"mask": mask, **turns(spec, new), "cache_lengths": filled}
    context |= dict(zip(("past_k", "past_v"), caches, strict=True))
    module = txmodels.attention.CachedAttention(spec, Cache.STATIC, weighted)
    context |= lengths_of(spec, mask, filled, new)
    function = partial(txgraphs.attention.cached_attention, spec, weighted, Cache.STATIC)
    check(module, function, random(B, new, W), **context)


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("new", [1, S])
@pytest.mark.parametrize("name", [name for name in CACHED if ATTENTIONS[name].window])
def test_windowed_attention_reads_few_slots(name, new, few):
    spec, filled = ATTENTIONS[name], torch.tensor([4, 3, 5])
    k, v = random(B, spec.num_kv_heads, C, H) + 3, random(B, spec.num_kv_heads, C, H) + 4
    bounds = torch.tensor([4 - spec.window]), torch.tensor([5 + new]), torch.tensor([few])
    context = {"mask": over_slots(filled, k, new, spec.reach), **turns(spec, new), "cache_lengths": filled}
    context |= {"past_k": k, "past_v": v, **lengths_of(spec, context["mask"], filled, new)}
    context |= dict(zip(("first", "end", "few"), bounds, strict=True))
    module = txmodels.attention.CachedAttention(spec, Cache.STATIC)
    function = partial(txgraphs.attention.cached_attention, spec, False, Cache.STATIC)
    check(module, function, random(B, new, W), **context)


@pytest.mark.parametrize("name", CACHED)
def test_attention_of_tokens_asked_for(name):
    spec, filled = ATTENTIONS[name], torch.tensor([2, 0, 7])
    k, v = random(B, spec.num_kv_heads, C, H) + 3, random(B, spec.num_kv_heads, C, H) + 4
    mask = carried(spec, over_slots(filled, k, S, spec.reach))
    context = {**turns(spec), "cache_lengths": filled, "past_k": k, "past_v": v, "logits_indices": ASKED}
    module = txmodels.attention.CachedAttention(spec, Cache.STATIC)
    function = partial(txgraphs.attention.cached_attention, spec, False, Cache.STATIC)
    check_asked(module, function, mask, random(B, S, W), **context)


def test_static_and_dynamic_attention_agree():
    spec = attention_spec(2)
    static = seeded(txmodels.attention.CachedAttention(spec, Cache.STATIC))
    dynamic = seeded(txmodels.attention.CachedAttention(spec, Cache.DYNAMIC))
    x, k, v = random(B, S, W), random(B, 2, P, H), random(B, 2, P, H) + 1
    buffers = [torch.cat([past, random(B, 2, C - P, H) + 5], dim=2) for past in (k, v)]
    causal = torch.arange(P + S) <= torch.arange(P, P + S)[:, None]
    with torch.no_grad():
        y, _, _ = static(x, None, None, None, torch.full((B,), P), *buffers, filled=torch.full((B,), P + S))
        expected, _, _ = dynamic(x, causal.expand(B, 1, S, P + S), None, None, None, k, v)
    assert (y - expected).abs().max() < 1e-6


@WEIGHTED
@pytest.mark.parametrize("name", CROSSING)
def test_cross_attention(name, weighted):
    spec = CROSSING[name]
    encoded = random(B, E, spec.key_value_size)
    keys = txmodels.attention.CrossKeyValue(spec)
    k, v = check(keys, partial(txgraphs.attention.cross_key_value, spec), encoded)
    mask = (
        ABSENT
        if spec.unmasked
        else (torch.arange(E) < torch.tensor([6, 1, 4])[:, None])[:, None, None].expand(B, 1, S, E)
    )
    arguments = (random(B, S, W), mask, torch.from_numpy(k), torch.from_numpy(v))
    module = txmodels.attention.CrossAttention(spec, weighted)
    check(module, partial(txgraphs.attention.cross_attention, spec, weighted), *arguments)


def test_rows_that_share_a_source_attend_as_if_each_had_its_own():
    """Beams: three sources, four rows of each."""
    spec, copies = CROSSING["whole"], 4
    k, v = (random(B, spec.num_kv_heads, E, H) for _ in range(2))
    module, x = txmodels.attention.CrossAttention(spec), random(copies * B, S, W)

    [y] = check(module, partial(txgraphs.attention.shared_cross_attention, spec), x, ABSENT, k, v)
    with torch.no_grad():
        (expected,) = module(x, None, *(part.repeat_interleave(copies, dim=0) for part in (k, v)))
    assert np.abs(y - expected.numpy()).max() < 1e-5


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [Activation.GELU, Activation.SILU])
def test_feed_forward(kind, bias, gated):
    spec = FeedForwardSpec(W, F, kind, bias, gated)
    check(
        txmodels.feedforward.FeedForward(spec),
        partial(txgraphs.feedforward.feed_forward, spec),
        random(B, S, W),
    )


@pytest.mark.parametrize(("up", "down"), [(2, 1), (1, 2)])
def test_feed_forward_in_groups(up, down):
    spec = FeedForwardSpec(W, F, Activation.GELU, up_groups=up, down_groups=down)
    module = txmodels.feedforward.FeedForward(spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.feed_forward(spec)
    check(module, partial(txgraphs.feedforward.feed_forward, spec), random(B, S, W))


@pytest.mark.parametrize("bias", [True, False])
def test_feed_forward_with_adapters(bias):
    spec = FeedForwardSpec(W, F, Activation.GELU, bias, gated=True, adapter_rank=3)
    module = txmodels.feedforward.FeedForward(spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.feed_forward(spec)
    check(module, partial(txgraphs.feedforward.feed_forward, spec), random(B, S, W))


@pytest.mark.parametrize("bias", [True, False])
def test_clipped_feed_forward(bias):
    """The up projection is clipped at both ends, the gate only above."""
    spec = FeedForwardSpec(W, F, Activation.QUICK_GELU, bias, gated=True, clip=0.4)
    module, function = (
        txmodels.feedforward.FeedForward(spec),
        partial(txgraphs.feedforward.feed_forward, spec),
    )
    check(module, function, random(B, S, W))
    with torch.no_grad():
        gate, up = module.gate(random(B, S, W)), module.up(random(B, S, W))
    assert min(gate.max(), -gate.min(), up.max(), -up.min()) > 0.5


def block_spec(attention: str, placement: NormPlacement, cross: bool = False, **switches) -> BlockSpec:
    spec = ATTENTIONS[attention]
    gated = spec.rotary is not None
    return BlockSpec(
        spec,
        FeedForwardSpec(W, F, Activation.GELU, spec.bias, gated),
        NormSpec(W, 1e-3, NormKind.RMS if gated else NormKind.LAYER),
        placement,
        attention_spec(N, causal=False) if cross else None,
        **switches,
    )


BLOCKS = ["plain", "no bias", "rotary after head norm"]


SWITCHES = [(kind, {}) for kind in NormPlacement] + [
    ("pre", {"skip_attention_norm": True}),
    ("pre", {"layer_scale": True}),
    ("pre", {"residual_scale": 0.22}),
    ("sandwich", {"layer_scale": True}),
]


@WEIGHTED
@pytest.mark.parametrize("attention", BLOCKS)
@pytest.mark.parametrize(("placement", "switches"), SWITCHES)
def test_encoder_block(placement, switches, attention, weighted):
    spec = block_spec(attention, NormPlacement(placement), **switches)
    module = txmodels.block.EncoderBlock(spec, weighted)
    function = partial(txgraphs.block.encoder_block, spec, weighted)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.block(spec)
    mask = torch.rand(B, 1, S, S, generator=torch.Generator().manual_seed(3)) < 0.6
    check(module, function, random(B, S, W), mask=mask, **turns(spec.attention))


CROSSABLE = [
    (kind, cross)
    for kind in NormPlacement
    for cross in (False, True)
    if kind not in ("parallel", "res-post", "double-post") or not cross
]


@WEIGHTED
@pytest.mark.parametrize("cache", Cache)
@pytest.mark.parametrize("attention", BLOCKS)
@pytest.mark.parametrize(("placement", "cross"), CROSSABLE)
def test_decoder_block(placement, attention, cache, cross, weighted):
    spec = block_spec(attention, placement, cross)
    module, function = (
        txmodels.block.DecoderBlock(spec, cache, weighted),
        partial(txgraphs.block.decoder_block, spec, weighted, cache),
    )
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.block(spec)
    static, heads = cache == Cache.STATIC, spec.attention.num_kv_heads
    size = C if static else P
    past = {"past_k": random(B, heads, size, H), "past_v": random(B, heads, size, H) + 1}
    mask = torch.ones(B, 1, S, P + S, dtype=torch.bool).tril(P)
    lengths = torch.tensor([2, 0, 7]) if static else ABSENT
    if static:
        mask = over_slots(lengths, past["past_k"], S) if weighted else ABSENT
    real = torch.ones(B, 1, S, E, dtype=torch.bool)
    source = {"mask": real, "k": random(B, N, E, H), "v": random(B, N, E, H) + 1} if cross else ABSENT
    context = {"mask": mask, **turns(spec.attention), "cache_lengths": lengths, **past}
    if static:
        context |= lengths_of(spec.attention, mask, lengths, S)
    check(module, function, random(B, S, W), source, **context)


@pytest.mark.parametrize("attention", BLOCKS)
@pytest.mark.parametrize("placement", [kind for kind, cross in CROSSABLE if not cross])
def test_decoder_block_of_tokens_asked_for(placement, attention):
    spec, lengths = block_spec(attention, placement), torch.tensor([2, 0, 7])
    heads = spec.attention.num_kv_heads
    k, v = random(B, heads, C, H), random(B, heads, C, H) + 1
    context = {"cache_lengths": lengths, **turns(spec.attention), "logits_indices": ASKED}
    module = txmodels.block.DecoderBlock(spec, Cache.STATIC)
    function = partial(txgraphs.block.decoder_block, spec, False, Cache.STATIC)
    x, mask = random(B, S, W), over_slots(lengths, k, S)
    check_asked(module, function, mask, x, ABSENT, **context, past_k=k, past_v=v)


EXPERTS = ExpertsSpec(FeedForwardSpec(W, F, Activation.SILU, bias=False, gated=True), 5, 2)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("normalised", [True, False])
def test_router(normalised, bias):
    spec = replace(EXPERTS, normalised=normalised, router_bias=bias)
    module = txmodels.experts.Router(spec)
    share, _ = check(module, partial(txgraphs.experts.router, spec), random(B, S, W))
    assert (share.sum(axis=1) > 0.999).all() == normalised


@pytest.mark.parametrize("capacity", [1, 2, 9])
def test_router_with_limited_capacity(capacity):
    """Later tokens of a row get a number that no expert has."""
    spec = replace(EXPERTS, top_k=1, normalised=False, capacity=capacity)
    module, x = txmodels.experts.Router(spec), random(B, 8, W)
    _, choice = check(module, partial(txgraphs.experts.router, spec), x)
    every = replace(spec, capacity=None)
    free = txmodels.experts.Router(every)
    free.load_state_dict(module.state_dict())
    with torch.no_grad():
        _, wanted = free(x)
    for row, wishes in zip(choice.reshape(B, 8).tolist(), wanted.view(B, 8).tolist(), strict=True):
        for place, (got, wish) in enumerate(zip(row, wishes, strict=True)):
            assert got == (wish if wishes[:place].count(wish) < capacity else 5)


def test_experts_of_weighted_tokens():
    """As Llama 4's, whose experts all compute, most of them zeros."""
    network = replace(EXPERTS.expert, intermediate_size=F)
    spec = replace(EXPERTS, normalised=False, sigmoid=True, weighted_inputs=True)
    spec = replace(spec, shared=network, shared_gated=False)
    module, x = txmodels.experts.Experts(spec), random(B, S, W)
    result, *_ = check(module, partial(txgraphs.experts.experts, spec), x)
    original = Llama4TextMoe(
        Llama4TextConfig(hidden_size=W, intermediate_size=F, num_local_experts=5, num_experts_per_tok=2)
    )
    state = {"router.weight": module.router.weight}
    weights = [expert.state_dict() for expert in module.experts]
    both = [torch.cat([one["gate.weight"], one["up.weight"]]).mT for one in weights]
    state |= {"experts.gate_up_proj": torch.stack(both)}
    state |= {"experts.down_proj": torch.stack([one["down.weight"].mT for one in weights])}
    for name in ("gate", "up", "down"):
        state[f"shared_expert.{name}_proj.weight"] = module.shared.state_dict()[f"{name}.weight"]
    original.load_state_dict(state)
    with torch.no_grad():
        expected, _ = original(x)
    assert result == pytest.approx(expected.view(B, S, W).numpy(), abs=1e-5)


@pytest.mark.parametrize("normalised", [True, False])
def test_router_of_sigmoids(normalised):
    """As the original's: experts are picked by their scores, since sigmoids of large ones are equal."""
    spec = replace(EXPERTS, num_experts=8, top_k=3, normalised=normalised, sigmoid=True, scale=0.5)
    module, x = txmodels.experts.Router(spec), 100 * random(B, S, W)
    share, choice = check(module, partial(txgraphs.experts.router, spec), x)
    config = Cohere2MoeConfig(
        hidden_size=W,
        num_experts=8,
        num_experts_per_tok=3,
        expert_selection_fn="sigmoid",
        norm_topk_prob=normalised,
    )
    original = Cohere2MoeTopKRouter(config)
    original.load_state_dict(module.state_dict())
    with torch.no_grad():
        scores, weights, experts = original(x.flatten(0, 1))
    assert ((scores > 20).sum(dim=1) > 3).any()
    assert choice.tolist() == experts.tolist()
    assert share == pytest.approx(0.5 * weights.numpy(), rel=1e-5)


ROUTERS = {
    "corrected": {"corrected": True},
    "corrected, more than the sum": {"corrected": True, "sum_eps": 0.3},
    "corrected softmax": {"corrected": True, "softmax_scores": True},
    "corrected, not normalised": {"corrected": True, "normalised": False, "scale": 2.5},
    "corrected, in groups": {"corrected": True, "num_groups": 4, "top_groups": 2, "scale": 0.3},
    "corrected, best group": {"corrected": True, "num_groups": 2, "top_groups": 1},
    "scaled": {"scale": 1.6},
    "in groups": {"normalised": False, "num_groups": 4, "top_groups": 2, "scale": 16.0},
    "all groups": {"normalised": False, "num_groups": 4, "top_groups": 4},
}


@pytest.mark.parametrize("switches", ROUTERS.values(), ids=ROUTERS)
def test_router_in_groups(switches):
    """Selection from the groups with the best expert, or with bias corrections the best two."""
    spec = replace(EXPERTS, num_experts=8, top_k=3, **switches)
    module, x = txmodels.experts.Router(spec), random(B, S, W)
    share, choice = check(module, partial(txgraphs.experts.router, spec), x)
    with torch.no_grad():
        scores = torch.nn.functional.linear(x.flatten(0, 1), module.weight)
    sigmoid = spec.corrected and not spec.softmax_scores
    scores = scores.sigmoid() if sigmoid else scores.softmax(dim=-1)
    for row, experts, weights in zip(scores, choice, share, strict=True):
        merits = (row + module.correction.detach() if spec.corrected else row).view(spec.num_groups, -1)
        best = merits.sort(descending=True).values[:, : 1 + spec.corrected].sum(dim=1)
        groups = best.sort(descending=True).indices[: spec.top_groups]
        size = merits.shape[1]
        ranked = sorted(
            (expert for group in groups.tolist() for expert in range(group * size, (group + 1) * size)),
            key=lambda expert: -merits.flatten()[expert],
        )
        assert experts.tolist() == ranked[:3]
        expected = row[ranked[:3]]
        expected = spec.scale * (expected / (expected.sum() + spec.sum_eps) if spec.normalised else expected)
        assert weights == pytest.approx(expected.numpy(), rel=1e-5)


@pytest.mark.parametrize("jitter", [0.01, 0.3, 1.5])
def test_router_of_near_scores(jitter):
    """As the original's, also where several scores are close to the maximum, and where all are negative."""
    spec = replace(EXPERTS, num_experts=8, jitter=jitter)
    module, x = txmodels.experts.Router(spec), random(B, S, W)
    share, choice = check(module, partial(txgraphs.experts.router, spec), x)
    with torch.no_grad():
        scores = torch.nn.functional.linear(x.flatten(0, 1), module.weight)
        for moved in (scores, scores - 3):
            weights, experts = sparsemixer(moved, jitter, training=False)
            found, taken = module._near_ones(moved, jitter)
            assert torch.equal(taken, experts)
            assert torch.allclose(found, weights, rtol=1e-6)
        weights, experts = sparsemixer(scores, jitter, training=False)
    assert choice.tolist() == experts.tolist()
    assert share == pytest.approx(weights.numpy(), rel=1e-5)


@pytest.mark.parametrize("gated", [True, False])
def test_shared_expert(gated):
    shared = FeedForwardSpec(W, 30, Activation.SILU, bias=False, gated=True)
    spec = replace(EXPERTS, shared=shared, shared_gated=gated)
    module = txmodels.experts.Experts(spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.experts(spec)
    check(module, partial(txgraphs.experts.experts, spec), random(B, S, W))


def test_experts_read_a_projection():
    spec = replace(EXPERTS, expert=replace(EXPERTS.expert, hidden_size=9), token_size=W)
    module = txmodels.experts.Experts(spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.experts(spec)
    check(module, partial(txgraphs.experts.experts, spec), random(B, S, W))


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich", "parallel"])
@pytest.mark.parametrize("bias", [True, False])
def test_experts_in_a_block(bias, placement):
    """With the bias of their sum, which is added once, unweighted."""
    spec = replace(EXPERTS, normalised=False, output_bias=bias)
    block = replace(block_spec("plain", NormPlacement(placement)), feed_forward=spec)
    module = txmodels.block.EncoderBlock(block)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == parameters.block(block)
    mask = torch.ones(B, 1, S, S, dtype=torch.bool)
    function = partial(txgraphs.block.encoder_block, block, False)
    check(module, function, random(B, S, W), mask=mask, **turns(block.attention))


@pytest.mark.parametrize("tokens", [1, 2, 40])
def test_each_token_is_computed_by_its_experts_alone(tokens):
    """One token leaves three of five experts without rows."""
    module, x = txmodels.experts.Experts(EXPERTS), random(1, tokens, W)
    result, *_ = check(module, partial(txgraphs.experts.experts, EXPERTS), x)
    with torch.no_grad():
        share, choice = module.router(x)
        for token in range(tokens):
            parts = [module.experts[number](x[0, token]) for number in choice[token].tolist()]
            expected = sum(weight * part for weight, part in zip(share[token], parts, strict=True))
            assert result[0, token] == pytest.approx(expected.numpy(), abs=1e-5)


def test_pooler():
    check(txmodels.heads.vectors.Pooler(W), txgraphs.heads.vectors.pooler, random(B, S, W))


POOL = AttentionPoolSpec(
    AttentionSpec(W, N, N, H, causal=False, unmasked=True),
    NormSpec(W, 1e-3),
    FeedForwardSpec(W, F, Activation.GELU_TANH),
)
VECTORS = [
    VectorSpec(),
    VectorSpec(Pick.FIRST_EOS, eos_token_id=5, size=7, compared=True),
    VectorSpec(Pick.ARGMAX_ID, norm=NormSpec(W, 1e-3), size=7, bias=True),
    VectorSpec(Pick.FINAL, size=7, bias=True),
    VectorSpec(pool=POOL),
]


@pytest.mark.parametrize("spec", VECTORS, ids=lambda spec: "pool" if spec.pool else spec.pick)
def test_sequence_vector(spec):
    module = txmodels.heads.vectors.SequenceVector(spec, W)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == vectors.parameters(spec, W)
    ids = torch.tensor([[9, 4, 5, 9, 9], [9, 9, 9, 9, 9], [9, 9, 9, 1, 2]])
    check(
        module,
        partial(txgraphs.heads.vectors.sequence_vector, spec),
        random(B, S, W),
        ids,
        torch.ones_like(ids),
    )


def received(word: ir.Value) -> Received:
    """A word embedding that is no parameter of the head."""
    return Received(FLOAT32, {"": word})


@pytest.mark.parametrize("beside", [None, 4])
@pytest.mark.parametrize("size", [W, 10])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_masked_lm_head(tied, bias, size, beside):
    spec = HeadSpec(HeadKind.MASKED_LM, tied, bias, Activation.GELU, NormSpec(size, 1e-3), beside=beside)
    module = txmodels.heads.masked_lm.MaskedLMHead(spec, W, V)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)

    def head(g, x, word):
        return txgraphs.heads.masked_lm.masked_lm_head(spec, g, x, received(word) if tied else None)

    check(module, head, random(B, S, W), random(V, size - (beside or 0)))


@pytest.mark.parametrize("shaped", [True, False])
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_causal_lm_head(tied, bias, indexed, shaped):
    transform: dict = {"activation": Activation.GELU, "norm": NORM, "dense_bias": bias} if shaped else {}
    factors = {"scale": 0.3 if bias else 1.0, "softcap": None if tied else 2.0}
    spec = HeadSpec(HeadKind.CAUSAL_LM, tied, bias, **transform, **factors)
    picks = ASKED if indexed else ABSENT
    module = txmodels.heads.causal_lm.CausalLMHead(spec, W, V)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)

    def head(g, x, logits_indices, word):
        matrix = received(word) if tied else None
        return txgraphs.heads.causal_lm.causal_lm_head(spec, g, x, logits_indices, matrix)

    check(module, head, random(B, S, W), picks, random(V, W))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_causal_lm_head_of_narrow_words(tied, bias):
    spec = HeadSpec(HeadKind.CAUSAL_LM, tied, bias, scale=0.3, factored_size=10)
    module = txmodels.heads.causal_lm.CausalLMHead(spec, W, V)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)

    def head(g, x, logits_indices, word):
        matrix = received(word) if tied else None
        return txgraphs.heads.causal_lm.causal_lm_head(spec, g, x, logits_indices, matrix)

    check(module, head, random(B, S, W), ASKED, random(V, 10))


ZERO = torch.tensor([0])
PATCHES = [
    *(
        PatchSpec(W, (12, 19), 4, tokens=tokens, bias=bias, norm=NORM if bias else None)
        for tokens, bias in ((0, True), (1, False), (2, True))
    ),
    PatchSpec(W, (12, 19), 4, registers=3),
    PatchSpec(W, (12, 19), 4, registers=3, positioned=False),
    PatchSpec(W, (12, 19), 4, detection_tokens=3),
    PatchSpec(W, (13, 16), 4, tokens=0, border=1, shared_position=True),
]


@pytest.mark.parametrize("spec", PATCHES, ids=lambda spec: f"{spec.tokens} tokens {spec.length} vectors")
def test_patch_embedding(spec):
    module, function = (
        txmodels.inputs.patches.PatchEmbedding(spec),
        partial(txgraphs.inputs.patches.patch_embedding, spec),
    )
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[type(spec)].parameters(spec)
    found = check(module, function, random(B, *spec.shape))
    assert found[0].shape == (B, spec.length, W)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(12, 19), (9, 23), (31, 4)], ids="{0[0]} by {0[1]}".format)
def test_patch_embedding_of_any_size(size, antialias):
    spec = PatchSpec(W, (12, 19), 4, any_size=True, antialias=antialias)
    module, function = (
        txmodels.inputs.patches.PatchEmbedding(spec),
        partial(txgraphs.inputs.patches.patch_embedding, spec),
    )
    found = check(module, function, random(B, spec.channels, *size))
    assert found[0].shape == (B, 1 + (size[0] // 4) * (size[1] // 4), W)


@pytest.mark.parametrize("size", [(12, 19), (9, 23), (31, 4)], ids="{0[0]} by {0[1]}".format)
def test_layer_position(size):
    """Positions of detection tokens are not interpolated: they are the table's last rows."""
    spec = PatchSpec(W, (12, 19), 4, any_size=True, detection_tokens=3)
    module = txmodels.inputs.patches.LayerPosition(spec)
    patches = (size[0] // 4) * (size[1] // 4)
    x = torch.zeros(B, 1 + patches + 3, W)
    y = check(module, partial(txgraphs.inputs.patches.layer_position, spec), x, random(B, 3, *size))
    table = module.weight.detach().numpy()
    assert np.array_equal(y[0][0, [0, -3, -2, -1]], table[[0, -3, -2, -1]])


@pytest.mark.parametrize("size", [(12, 19), (9, 23), (31, 4)], ids="{0[0]} by {0[1]}".format)
def test_patch_rotation(size):
    patches, rotary = PatchSpec(W, (12, 19), 4, registers=3, positioned=False), RotarySpec((1.0, 0.3) * 2)
    twin = partial(txmodels.position.patch_rotation, patches, rotary)
    function = txgraphs.position.patch_rotation(patches, rotary, ir.DataType.FLOAT)
    cos, sin = check(twin, function, random(B, 3, *size))
    rows, columns = size[0] // 4, size[1] // 4
    assert cos.shape == (B, 4 + rows * columns, 4)
    assert (cos[:, :4] == 1).all()
    assert (sin[:, :4] == 0).all()
    down, across = 1 - 1 / rows, 1 - 1 / columns
    last = 2 * np.pi * np.array([down, 0.3 * down, across, 0.3 * across])
    assert np.abs(cos[0, -1] - np.cos(last)).max() < 1e-5


@pytest.mark.parametrize("kind", [Activation.GELU, Activation.RELU])
def test_sound_embedding(kind):
    spec = LogMelSpec(W, 7, 11, kind)
    module, function = (
        txmodels.inputs.log_mel.SoundEmbedding(spec),
        partial(txgraphs.inputs.log_mel.sound_embedding, spec),
    )
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[type(spec)].parameters(spec)
    found = check(module, function, random(B, *spec.shape))
    assert found[0].shape == (B, 11, W)


@pytest.mark.parametrize("frames", [1, 2, 7, 21, 22])
def test_sound_embedding_with_a_mask(frames):
    """A vector is real where the first of its two frames is."""
    spec = LogMelSpec(W, 7, 11, Activation.GELU, masked=True)
    module = txmodels.inputs.log_mel.SoundEmbedding(spec)
    mask = (torch.arange(22) < frames).long().expand(B, -1)
    _, vectors = check(
        module, partial(txgraphs.inputs.log_mel.masked_sound_embedding, spec), random(B, *spec.shape), mask
    )
    assert vectors.sum(1).tolist() == [(frames - 1) // 2 + 1] * B


def test_spectrogram_embedding():
    spec = SpectrogramSpec(W, 11, 19, patch_size=4, frequency_stride=3, time_stride=2)
    module = txmodels.inputs.spectrogram.SpectrogramEmbedding(spec)
    function = partial(txgraphs.inputs.spectrogram.spectrogram_embedding, spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[type(spec)].parameters(spec)
    found = check(module, function, random(B, *spec.shape))
    assert found[0].shape == (B, 2 + 3 * 8, W)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kernel", [4, 5])
@pytest.mark.parametrize("kind", [Activation.GELU, Activation.RELU])
def test_waveform_embedding(kind, kernel, bias):
    convolutions = ConvolutionSpec(5, 4, 3), ConvolutionSpec(7, 2, 2)
    spec = WaveformSpec(W, convolutions, kind, NormSpec(7, 1e-5), NormSpec(W, 1e-5), kernel, 2, bias=bias)
    module = txmodels.inputs.waveform.WaveformEmbedding(spec)
    function = partial(txgraphs.inputs.waveform.waveform_embedding, spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[type(spec)].parameters(spec)
    for samples, length in ((25, 4), (61, 10), (70, 11)):
        assert spec.vectors(samples) == length
        outputs = check(module, function, random(B, samples))
        assert outputs[0].shape == (B, length, W)


@pytest.mark.parametrize("kind", [Activation.GELU, Activation.RELU])
def test_waveform_stem(kind):
    """The norm is over channels and time, so a vector depends on the whole waveform."""
    convolutions = ConvolutionSpec(5, 7, 4), ConvolutionSpec(10, 3, 2), ConvolutionSpec(W, 2, 2)
    spec = WaveformStemSpec(W, convolutions, kind, norm_eps=1e-3)
    module = txmodels.inputs.waveform_stem.WaveformStem(spec)
    function = partial(txgraphs.inputs.waveform_stem.waveform_stem, spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[type(spec)].parameters(spec)
    for samples, length in ((spec.least, 1), (61, 3), (90, 5)):
        assert spec.vectors(samples) == length
        signals = random(B, samples)
        outputs = check(module, function, signals)
        assert outputs[0].shape == (B, length, W)
    louder = torch.cat([signals[:, :45], signals[:, 45:] * 100], dim=1)  # beyond the first vector's samples
    assert not torch.equal(module(louder)[:, 0], module(signals)[:, 0])


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("kind", ConvolutionNorm)
def test_masked_waveform_embedding(kind, normed):
    convolutions = ConvolutionSpec(5, 4, 3), ConvolutionSpec(7, 2, 2)
    norms = (NormSpec(7, 1e-5), NormSpec(W, 1e-5)) if normed else (None, None)
    spec = WaveformSpec(W, convolutions, Activation.GELU, *norms, 4, 2, convolution_norm=kind, masked=True)
    module = txmodels.inputs.waveform.WaveformEmbedding(spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[type(spec)].parameters(spec)

    def function(place, signal, attention_mask):
        return txgraphs.inputs.waveform.waveform_embedding(spec, place, signal, attention_mask=attention_mask)

    for lengths in ([25, 10, 12], [13, 40, 61], [70, 70, 70]):
        mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
        x, vectors = check(module, function, random(B, max(lengths)), mask)
        assert vectors.sum(1).tolist() == [spec.vectors(length) for length in lengths]
        assert x.shape == (*vectors.shape, W)


@pytest.mark.parametrize("kernel", [1, 4, 5])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_squeeze(factor, kernel):
    """Vectors behind the last complete group are dropped."""
    spec = SqueezeSpec(factor, kernel, 2, NORM, Activation.GELU)
    module, function = txmodels.squeeze.Squeeze(spec), partial(txgraphs.squeeze.squeeze, spec)
    for length in (factor, 7, 12):
        assert check(module, function, random(B, length, W))[0].shape == (B, length // factor, W)


@pytest.mark.parametrize("factor", [1, 2, 3])
def test_pooled_mask(factor):
    """A group with a vector of the signal counts as one."""
    spec = SqueezeSpec(factor, 4, 2, NORM, Activation.GELU)
    module, function = txmodels.squeeze.PooledMask(spec), partial(txgraphs.squeeze.pooled_mask, spec)
    for length in (factor, 7, 12):
        rows = torch.tensor([length, 1, max(1, length - 2)])
        (pooled,) = check(module, function, (torch.arange(length) < rows[:, None]).long())
        groups = (-(-rows // factor)).clamp(max=length // factor)
        assert pooled.sum(1).tolist() == groups.tolist()


@pytest.mark.parametrize("kind", [Activation.GELU, Activation.RELU])
@pytest.mark.parametrize("factor", [1, 2, 3])
def test_upsampling(factor, kind):
    spec = SqueezeSpec(factor, 4, 2, NORM, kind)
    module = txmodels.squeeze.Upsampling(spec)
    for length in (factor, 7, 12):
        squeezed, frames = random(B, length // factor, W), random(B, length, W)
        (y,) = check(module, partial(txgraphs.squeeze.upsampling, spec), squeezed, frames)
        assert y.shape == frames.shape
        assert not y[:, length // factor * factor :].any()


SIZES = [(3, 2, 1), (4, 3, 1), (5, 1, 2)]  # kernel, stride, padding


@pytest.mark.parametrize(("kernel", "stride", "padding"), SIZES)
def test_gated_convolution_and_mask(kernel, stride, padding):
    """A row has as many vectors as it would have without padding."""
    spec = LengthAdapterSpec(W, 1, kernel, stride, padding)
    module = txmodels.gated_convolution.GatedConvolution(W, *spec.convolution)
    function = partial(txgraphs.gated_convolution.gated_convolution, *spec.convolution)
    masking = partial(txgraphs.length_adapter.shortened_mask, spec)
    for length in (spec.least(1), 7, 12):
        x, rows = random(B, length, W), torch.tensor([length, max(1, length - 1), max(1, length - 4)])
        (y,) = check(module, function, x)
        assert y.shape == (B, spec.after(length), W)
        mask = (torch.arange(length) < rows[:, None]).long()
        (shortened,) = check(txmodels.length_adapter.ShortenedMask(spec), masking, mask)
        assert shortened.sum(1).tolist() == [max(0, spec.after(row)) for row in rows.tolist()]
        assert shortened.shape[1] == y.shape[1]


def test_adapter_block():
    attention = AttentionSpec(W, 4, 4, 6, causal=False)
    feed = FeedForwardSpec(W, 50, Activation.RELU)
    block = BlockSpec(attention, feed, NORM, NormPlacement.PRE)
    spec = LengthAdapterSpec(W, 1, 3, 2, 1, block=block)
    module = txmodels.length_adapter.AdapterBlock(spec)
    mask = (torch.arange(4) < torch.tensor([[4], [3], [1]])).long()
    check(module, partial(txgraphs.length_adapter.adapter_block, spec), random(B, 7, W), mask)


def test_half_feed_forward():
    spec = FeedForwardSpec(W, 5, Activation.RELU)
    module = txmodels.length_adapter.HalfFeedForward(spec)
    check(module, partial(txgraphs.length_adapter.half_feed_forward, spec), random(B, S, W))


def test_adapter():
    spec = AdapterSpec(NORM, FeedForwardSpec(W, 5, Activation.RELU))
    module = txmodels.adapter.Adapter(spec)
    check(module, partial(txgraphs.adapter.adapter, spec), random(B, S, W))


@pytest.mark.parametrize("kernel", [4, 5])
@pytest.mark.parametrize(
    ("kind", "layers"), [(PositionNorm.BATCH, 1), (PositionNorm.LAYER, 1), (PositionNorm.LAYER, 3)]
)
def test_normed_positions_of_a_waveform(kind, layers, kernel):
    norms, convolutions = (NormSpec(7, 1e-5), NormSpec(W, 1e-5)), (ConvolutionSpec(7, 4, 3),)
    spec = WaveformSpec(
        W,
        convolutions,
        Activation.GELU,
        *norms,
        position_kernel=kernel,
        position_groups=2,
        position_norm=kind,
        position_layers=layers,
    )
    module = txmodels.inputs.waveform.WaveformEmbedding(spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == OF_SPEC[type(spec)].parameters(spec)
    outputs = check(module, partial(txgraphs.inputs.waveform.waveform_embedding, spec), random(B, 61))
    assert outputs[0].shape == (B, spec.vectors(61), W)


PICKS = {
    "first": (None, [0, 0, 0]),
    "last": (9, [2, 0, 4]),
    "last_eos": (9, [4, 4, 2]),
    "first_eos": (5, [2, 0, 0]),
    "argmax_id": (None, [0, 0, 0]),
    "final": (None, [4, 4, 4]),
    "first_seen": (None, [1, 4, 3]),
    "last_seen": (None, [2, 0, 4]),
    "mean_behind": (None, None),
    "mean_behind of some": (2, None),
    "mean": (None, None),
    "mean_late": (None, None),
    "first_and_mean": (None, None),
    "first_and_mean of some": (2, None),
}


@pytest.mark.parametrize("kind", PICKS)
def test_pick(kind):
    token, places = PICKS[kind]
    kind = kind.split()[0]
    ids = torch.tensor([[9, 4, 5, 9, 9], [9, 9, 9, 9, 9], [9, 9, 9, 1, 2]])
    seen = torch.tensor([S - 1]) if kind == "first_seen" else ZERO
    x, mask = random(B, S, W), (ids != 9).long().index_fill(1, seen, 1)
    module = partial(txmodels.heads.pick.pick, Pick(kind), token)
    found = check(module, txgraphs.heads.pick.pick(Pick(kind), token), x, ids, mask)[0]
    if places is not None:
        assert np.array_equal(found, x[torch.arange(B), torch.tensor(places)].numpy())


def test_unit():
    found = check(
        txmodels.architectures.dual_encoder.unit, txgraphs.architectures.dual_encoder.unit, random(B, W)
    )
    assert np.allclose(np.linalg.norm(found[0], axis=1), 1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("two_scales", [False, True])
def test_similarity(bias, two_scales):
    graph = partial(txgraphs.architectures.dual_encoder.similarity, bias, two_scales)
    module = txmodels.architectures.dual_encoder.Similarity(bias, two_scales)
    check(module, graph, random(B, W), random(5, W))


def test_two_layers():
    module = txmodels.architectures.dual_encoder.TwoLayers(W, 7, Activation.RELU)
    graph = partial(txgraphs.architectures.dual_encoder.two_layers, Activation.RELU)
    check(module, graph, random(B, W))


def test_attention_pool():
    module = txmodels.attention_pool.AttentionPool(POOL)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == vectors.attention_pool(POOL)
    check(module, partial(txgraphs.attention_pool.attention_pool, POOL), random(B, S, W))


def test_attention_pool_over_padding():
    spec = replace(POOL, attention=replace(POOL.attention, unmasked=False))
    module = txmodels.attention_pool.AttentionPool(spec)
    mask = (torch.arange(S) < torch.arange(1, B + 1)[:, None]).long()
    function = partial(txgraphs.attention_pool.attention_pool, spec)
    [pooled] = check(module, function, random(B, S, W), attention_mask=mask)
    alone_too = module(random(B, S, W)[:1, :1], mask[:1, :1])
    assert np.abs(pooled[:1] - alone_too.detach().numpy()).max() < 1e-5


LABELS = {"tied": False, "labels": 7}


TRANSFORMS: list[dict] = [
    {},
    {"activation": Activation.TANH},
    {"activation": Activation.RELU, "dense_bias": False, "norm": NormSpec(W, 1e-3, bias=False)},
]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize(
    ("pick", "padding"),
    [("first", None), ("mean", None), ("last", None), ("last", 9)],
)
def test_sequence_head(pick, padding, transform, bias):
    spec = HeadSpec(
        HeadKind.SEQUENCE, bias=bias, pick=Pick(pick), pad_token_id=padding, **transform, **LABELS
    )
    module = txmodels.heads.sequence.SequenceHead(spec, W)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)
    ids = torch.tensor([[9, 4, 5, 9, 9], [9, 9, 9, 9, 9], [9, 9, 9, 1, 2]])
    check(
        module,
        partial(txgraphs.heads.sequence.sequence_head, spec),
        random(B, S, W),
        ids,
        (ids != 9).long().index_fill(1, ZERO, 1),
    )


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("pick", [Pick.FIRST, Pick.GLOBAL_AVERAGE])
def test_sequence_head_of_projected_vectors(pick, bias):
    spec = HeadSpec(HeadKind.SEQUENCE, pick=pick, factored_size=10, factored_bias=bias, **LABELS)
    module = txmodels.heads.sequence.SequenceHead(spec, W)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)
    assert ("narrow.bias" in head_of(spec).parameters(spec, W, V)) == bias
    check(module, partial(txgraphs.heads.sequence.sequence_head, spec), random(B, S, W), ABSENT, ABSENT)


@pytest.mark.parametrize("count", [2, 5])
def test_layer_sum(count):
    states = {str(layer): state.contiguous() for layer, state in enumerate(random(count, B, S, W))}
    check(txmodels.layer_sum.LayerSum(count), txgraphs.layer_sum.layer_sum, states)


@pytest.mark.parametrize("transform", TRANSFORMS[1:])
@pytest.mark.parametrize("bias", [True, False])
def test_late_mean(bias, transform):
    """The mean of the dense layer's outputs, not the dense layer of the mean."""
    spec = HeadSpec(HeadKind.SEQUENCE, bias=bias, pick=Pick.MEAN_AFTER_DENSE, **transform, **LABELS)
    ids = torch.tensor([[9, 4, 5, 9, 9], [9, 9, 9, 9, 9], [9, 9, 9, 1, 2]])
    given = random(B, S, W), ids, (ids != 9).long().index_fill(1, ZERO, 1)
    module = txmodels.heads.sequence.SequenceHead(spec, W)
    check(module, partial(txgraphs.heads.sequence.sequence_head, spec), *given)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_token_head(transform, bias):
    spec = HeadSpec(HeadKind.TOKENS, bias=bias, **transform, **LABELS)
    module = txmodels.heads.tokens.TokenHead(spec, W)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)
    check(module, partial(txgraphs.heads.tokens.token_head, spec), random(B, S, W))


@pytest.mark.parametrize(("queries", "layers"), [(3, (3, 3)), (5, (1, 2))])
def test_boxes_head(queries, layers):
    """The last vectors alone are read."""
    boxes = BoxesSpec(queries, *layers)
    spec = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=4, boxes=boxes)
    module = txmodels.heads.boxes.BoxesHead(spec, W)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)
    x = random(B, 7, W)
    logits, pred_boxes = check(module, partial(txgraphs.heads.boxes.boxes_head, spec), x)
    assert logits.shape == (B, queries, 4)
    assert ((pred_boxes > 0) & (pred_boxes < 1)).all()
    scores = module(x)[0]
    x[:, : 7 - queries] += 1
    assert torch.equal(module(x)[0], scores)
    x[:, 7 - queries :] += 1
    assert not torch.equal(module(x)[0], scores)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("kernels", "dilations"), [((5, 3, 1), (1, 2, 1)), ((1, 2), (1, 3))])
def test_speaker_head(kernels, dilations, masked):
    """Of rows that end at their last vector, and of rows that end before."""
    delay = TimeDelaySpec((6, 8, 7)[: len(kernels)], kernels, dilations, vector_size=9)
    spec = HeadSpec(HeadKind.SPEAKER, tied=False, bias=True, labels=4, time_delay=delay)
    module = txmodels.heads.speaker.SpeakerHead(spec, W)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)
    mask = (torch.arange(14) < torch.tensor([[14], [9], [8]])).long() if masked else ABSENT
    x = random(3, 14, W)
    check(module, partial(txgraphs.heads.speaker.speaker_head, spec), x, mask)
    if masked:  # vectors of padding count only where the layers reach them
        changed = x.clone()
        reached = 9 + delay.lost - delay.lost_without_dilation
        changed[1, reached:] += 1
        assert reached < 14
        assert torch.equal(module(x, mask)[1], module(changed, mask)[1])


@pytest.mark.parametrize("bias", [True, False])
def test_span_head(bias):
    spec = HeadSpec(HeadKind.SPANS, tied=False, bias=bias, labels=2)
    module = txmodels.heads.spans.SpanHead(spec, W)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)
    check(module, partial(txgraphs.heads.spans.span_head, spec), random(B, S, W))


@pytest.mark.parametrize("kind", [NormKind.LAYER, NormKind.RMS])
def test_span_head_beside_a_question(kind):
    spec = HeadSpec(
        HeadKind.SPANS,
        tied=False,
        activation=Activation.GELU,
        norm=NormSpec(W, 1e-5, kind),
        labels=2,
        pick=Pick.FIRST_EOS,
        eos_token_id=3,
    )
    module = txmodels.heads.spans.QuestionSpanHead(spec, W)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(spec).parameters(spec, W, V)
    ids = torch.tensor([[1, 3, 2, 3], [5, 4, 4, 3], [1, 2, 4, 5]])  # two questions, one, none
    check(module, partial(txgraphs.heads.spans.question_span_head, spec), random(3, 4, W), ids)
