"""Operations compared with PyTorch's counts, memory with the arrays of a run."""

import dataclasses
import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from helpers.rows import ROWS, Row
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.mask import causal_mask, near_mask
from txmodels.model import Transformer
from txmodels.model import model as transformer

import txexport
from txexport import parts
from txexport.families import presets
from txexport.inspection import attention_operations, flops
from txexport.inspection.summary import outline
from txexport.runtime.generation.caches import open_cache
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    BottleneckSpec,
    Cache,
    EmbeddingSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PerformerAttentionSpec,
    PositionKind,
    PositionSpec,
    StridedAttentionSpec,
    TextStackSpec,
)
from txexport.spec.attention import Reach
from txexport.spec.lengths import behind


def row(model_type: str, task: str, variant: str) -> Row:
    return next(r for r in ROWS if (r.model_type, r.task, r.variant) == (model_type, task, variant))


def operations(run) -> tuple[int, int]:
    """PyTorch's count: operations with weights, and of attention with keys and values."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        run()
    counts = Counter({str(name): n for name, n in counter.get_flop_counts()["Global"].items()})
    attention = counts.pop("aten.bmm", 0)
    return counts.total(), attention


def prompt(model: Transformer, batch: int, length: int, cache: int = 0):
    """A pass of a decoder over `length` tokens after `cache` others, with logits of all."""
    ids, _ = tokens(batch, length)
    past = model.empty_past(batch, cache)
    cross = {}
    if isinstance(model.spec, EncoderDecoderSpec):
        size = model.spec.decoder.blocks[0].cross_attention
        kept = torch.zeros(batch, size.num_kv_heads, length + cache, size.head_dim)
        whole = torch.ones(batch, length + cache, dtype=torch.long)
        cross = {"encoder_attention_mask": whole, "cross": [(kept, kept)] * len(past)}
    return lambda: model.decode(ids, past, **cross)


def tokens(batch: int, length: int):
    return torch.zeros(batch, length, dtype=torch.long), torch.ones(batch, length, dtype=torch.long)


PLAIN, MASKED = presets.bert_base(), presets.bert_base(masked_lm=True)
PAIR = HeadSpec(HeadKind.SEQUENCE, tied=False, labels=2, activation=Activation.TANH)
NARROW = NormSpec(128, 1e-12)
FACTORED = dataclasses.replace(MASKED.encoder.embedding, factored_size=128, norm=NARROW)
ENCODERS = {
    "with narrow words": EncoderSpec(
        encoder=dataclasses.replace(MASKED.encoder, embedding=FACTORED),
        head=dataclasses.replace(MASKED.head, norm=NARROW),
    ),
    "with a pooler": PLAIN,
    "with a masked LM": MASKED,
    "with two heads": dataclasses.replace(MASKED, next_sentence=PAIR),
    "with labels": dataclasses.replace(PLAIN, pooler=False, head=PAIR),
    "with labels of tokens": dataclasses.replace(
        PLAIN, pooler=False, head=HeadSpec(HeadKind.TOKENS, tied=False, labels=5)
    ),
    "before a decoder": presets.t5("small"),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_operations_of_an_encoder_are_those_that_pytorch_counts(name):
    with torch.device("meta"):
        model = transformer(ENCODERS[name])
        ids, mask = tokens(2, 70)
        counted = operations(lambda: model.encode(ids, mask, torch.zeros_like(ids)))
    (found,) = flops.prefill(ENCODERS[name], 70, 2).values()
    assert (found.matrices + found.head, found.attention) == counted
    assert (found.tokens, found.total) == (140, sum(counted))


@pytest.mark.parametrize(
    ("model_type", "task"),
    [
        ("vit", "image-feature-extraction"),
        ("deit", "image-classification"),
        ("dinov2", "image-classification"),
        ("depth_anything", "depth-estimation"),
        ("dpt", "depth-estimation"),
        ("segformer", "image-segmentation"),
        ("glpn", "depth-estimation"),
        ("resnet", "image-feature-extraction"),
        ("convnext", "image-feature-extraction"),
        ("convnextv2", "image-classification"),
        ("vitpose", "pose-estimation"),
        ("dpt", "image-segmentation"),
        ("beit", "image-segmentation"),
        ("segformer", "image-classification"),
        ("whisper", "automatic-speech-recognition"),
        ("moonshine", "automatic-speech-recognition"),
        ("wav2vec2", "automatic-speech-recognition"),
        ("sew", "automatic-speech-recognition"),
        ("speech_to_text", "automatic-speech-recognition"),
        ("audio-spectrogram-transformer", "audio-classification"),
        ("whisper", "audio-classification"),
    ],
)
def test_operations_over_a_signal_are_those_that_pytorch_counts(model_type, task, checkpoint_of):
    labelled = ("dinov2", "convnextv2", "segformer", "audio-spectrogram-transformer", "beit")
    labels = dict.fromkeys((*labelled, *(["dpt"] if task == "image-segmentation" else [])), "5 labels")
    sums = {"whisper": "sum of all layers"} if task == "audio-classification" else {}
    odd = {"wav2vec2": "biases, odd kernel, relu"}  # of even ones PyTorch counts a vector that is dropped
    variant = ({"deit": "with teacher"} | labels | sums | odd).get(model_type, "")
    found = txexport.inspect(checkpoint_of(row(model_type, task, variant)), batch=2)
    with torch.device("meta"):
        model = transformer(found.spec)
        signal = torch.zeros(2, *found.spec.encoder.embedding.shape)
        mask = [torch.ones(signal.shape[:2], dtype=torch.long)] * found.spec.encoder.masked
        counted = operations(lambda: model.encode_signal(signal, *mask))
    work = found.prefill["encoder"]
    assert (work.matrices + work.head, work.attention) == counted
    assert work.tokens == 2 * found.spec.encoder.embedding.length
    assert sum(flops.by_part(found.spec, "encoder", 0, 2).values()) == work.total


@pytest.mark.parametrize(
    ("model_type", "variant"),
    [("wav2vec2", "narrower length adapter, masked"), ("wav2vec2-bert", "narrower length adapter")],
)
def test_operations_of_a_length_adapter_are_those_that_pytorch_counts(model_type, variant, checkpoint_of):
    report = txexport.inspect(
        checkpoint_of(row(model_type, "automatic-speech-recognition", variant)), batch=2
    )
    stack = report.spec.encoder
    adapter = transformer(report.spec).encoder.length_adapter.requires_grad_(False)
    size = stack.embedding.length
    vectors, mask = torch.zeros(2, size, stack.hidden_size), torch.ones(2, size, dtype=torch.long)
    counted = operations(lambda: adapter(vectors, mask))
    assert 2 * flops.by_part(report.spec, "encoder", 0)["encoder.length_adapter"] == sum(counted)
    assert sum(flops.by_part(report.spec, "encoder", 0, 2).values()) == report.prefill["encoder"].total
    assert report.prefill["encoder"].head == 2 * 2 * 36 * 32 * behind(stack, size)


def test_a_decoder_reads_what_a_length_adapter_leaves(checkpoint_of):
    variant = "narrower adapter, BART"
    report = txexport.inspect(
        checkpoint_of(row("speech-encoder-decoder", "automatic-speech-recognition", variant)), batch=2
    )
    spec, model = report.spec, transformer(report.spec).requires_grad_(False)
    size = behind(spec.encoder, spec.encoder.embedding.length)
    vectors = torch.zeros(2, size, spec.source_size)
    (encoded, _) = operations(lambda: [pair(vectors) for pair in model.cross])
    assert flops.by_part(spec, "encoder", 0, 2)["cross"] == encoded
    assert sum(flops.by_part(spec, "encoder", 0, 2).values()) == report.prefill["encoder"].total
    cost = flops.cache(spec, 5, 2)
    pairs = [pair(vectors) for pair in model.cross]
    assert cost.cross_total == sum(4 * tensor.numel() for pair in pairs for tensor in pair)


def test_operations_over_tokens_that_are_read_twice_are_those_that_pytorch_counts(checkpoint_of):
    found = txexport.inspect(
        checkpoint_of(row("bart", "text-classification", "5 labels")), length=17, batch=2
    )
    with torch.device("meta"):
        model = transformer(found.spec)
        counted = operations(lambda: model.encode(*tokens(2, 17)))
    passes, decoder = found.prefill.values(), found.spec.decoder
    own = decoder.blocks[0].attention
    hidden = decoder.num_layers * 2 * 4 * own.num_heads * own.head_dim * 17 * 16 // 2  # by the causal mask
    assert sum(work.matrices + work.head for work in passes) == counted[0]
    assert sum(work.attention for work in passes) == counted[1] - hidden
    assert (found.step, found.cache) == (None, None)


@pytest.mark.parametrize(("family", "causal", "pooled"), [("clip", 1, 0), ("siglip", 0, 2 * 4 * 60 * 25)])
def test_operations_of_two_towers_are_those_that_pytorch_counts(family, causal, pooled, checkpoint_of):
    found = txexport.inspect(checkpoint_of(family), length=17, batch=2)
    towers = transformer(found.spec)
    ids, mask = tokens(2, 17)
    texts = operations(lambda: towers.texts(ids, mask))
    images = operations(lambda: towers.signals(torch.zeros(2, 3, 30, 30)))
    text, vision = found.prefill["text"], found.prefill["vision"]
    hidden = causal * 2 * 2 * 4 * 48 * 17 * 16 // 2  # PyTorch counts what the causal mask hides
    assert (text.matrices + text.head, text.attention) == (texts[0], texts[1] - hidden)
    assert (vision.matrices + vision.head - pooled, vision.attention + pooled) == images


@pytest.mark.parametrize("family", ["idefics3", "qwen2_vl", "lfm2_vl", "mistral3"])
def test_a_connector_runs_once_for_the_patches_that_it_joins(family, checkpoint_of):
    report = txexport.inspect(checkpoint_of(family))
    spec = report.spec
    read = report.prefill["vision"]
    owners = ("connector", "merger", "deep")
    weights = sum(
        math.prod(shape)
        for name, shape in parts.parameters(spec).items()
        if name.split(".")[0] in owners and len(shape) == 2
    )
    merged = spec.connector.merged if spec.merger is None else spec.merger.merged
    assert merged > 1
    assert read.head == 2 * weights * (read.tokens // merged**2)


def test_operations_of_a_pooled_vector_are_those_that_pytorch_counts(checkpoint_of):
    found = txexport.inspect(checkpoint_of("siglip_vision_model"), batch=2)
    counted = operations(lambda: transformer(found.spec).encode_signal(torch.zeros(2, 3, 30, 30)))
    pooled = 2 * 4 * 60 * 25
    (work,) = found.prefill.values()
    assert (work.matrices + work.head - pooled, work.attention + pooled) == counted


@pytest.mark.parametrize("spec", [presets.gpt2("small"), presets.llama("8b")], ids=["gpt2", "llama"])
def test_operations_of_a_prompt_leave_out_what_a_mask_hides(spec):
    """PyTorch computes the masked scores of later tokens too: S (S - 1) / 2 pairs a row."""
    attention, layers = spec.decoder.blocks[0].attention, spec.decoder.num_layers
    with torch.device("meta"):
        weights, scores = operations(prompt(transformer(spec, Cache.DYNAMIC), 2, 70))
    found = flops.prefill(spec, 70, 2)["decoder"]
    hidden = 2 * layers * 4 * attention.num_heads * attention.head_dim * 70 * 69 // 2
    assert (found.matrices + found.head, found.attention) == (weights, scores - hidden)


@pytest.mark.parametrize("spec", [presets.gpt2("small"), presets.t5("small")], ids=["gpt2", "t5"])
def test_operations_of_a_step_are_those_that_pytorch_counts(spec):
    with torch.device("meta"):
        counted = operations(prompt(transformer(spec, Cache.DYNAMIC), 2, 1, cache=69))
    found = flops.step(spec, 70, 2)
    assert (found.matrices + found.head, found.attention) == counted
    assert found.per_token == sum(counted) // 2


@pytest.mark.parametrize("length", [1, 9])
def test_operations_of_short_convolutions_are_those_of_their_products(length, checkpoint_of):
    """PyTorch counts no products of single numbers: 2 W K of each token in three of four layers."""
    result = txexport.inspect(checkpoint_of("lfm2"), length=length, batch=2)
    weights, scores = operations(prompt(transformer(result.spec, Cache.DYNAMIC), 2, length))
    work, convolved = result.prefill["decoder"], 3 * 2 * 48 * 3
    hidden = 2 * 4 * 48 * length * (length - 1) // 2
    assert work.matrices + work.head == weights
    assert work.attention == scores - hidden + 2 * length * convolved
    step = result.step
    assert step.attention == 2 * (4 * 48 * length + convolved)


def test_operations_of_a_mixture_are_those_of_the_chosen_experts(checkpoint_of):
    found = txexport.inspect(checkpoint_of("mixtral"), length=9)
    weights, _ = operations(prompt(transformer(found.spec, Cache.DYNAMIC), 1, 9))
    work = found.prefill["decoder"]
    assert work.matrices + work.head == weights


@pytest.mark.parametrize("length", [1, 5, 17, 40])
@pytest.mark.parametrize("variant", ["", "own projections of positions", "single distances, c2p"])
def test_operations_with_relative_positions_are_those_that_pytorch_counts(variant, length, checkpoint_of):
    """Position embeddings are projected once for all rows, and fewer for short ones."""
    folder = checkpoint_of(row("deberta-v2", "feature-extraction", variant))
    found = txexport.inspect(folder, length=length, batch=3)
    model = transformer(found.spec).requires_grad_(False)
    counted = operations(lambda: model.encode(*tokens(3, length)))
    assert found.prefill["encoder"].total == sum(counted)
    assert sum(flops.by_part(found.spec, "encoder", length, 3).values()) == sum(counted)


@pytest.mark.parametrize("length", [1, 5, 17])
def test_operations_with_distances_and_segments_are_those_that_pytorch_counts(length, checkpoint_of):
    found = txexport.inspect(checkpoint_of("xlnet"), length=length, batch=3)
    model = transformer(found.spec).requires_grad_(False)
    counted = operations(lambda: model.encode(*tokens(3, length), tokens(3, length)[0]))
    assert found.prefill["encoder"].total == sum(counted)
    assert sum(flops.by_part(found.spec, "encoder", length, 3).values()) == sum(counted)


@pytest.mark.parametrize("length", [1, 4, 5, 6, 30])
@pytest.mark.parametrize("window", [1, 2, 5, 31, None])
@pytest.mark.parametrize("causal", [True, False, "in chunks"])
def test_windows_leave_as_many_pairs_as_their_masks(causal, window, length):
    ids, ones = tokens(1, length)
    order = torch.arange(length)[None]
    seen = length**2
    chunked = causal == "in chunks" and window is not None
    if causal:
        seen = int(causal_mask(Reach(window, chunked), ones, ids, order).sum())
    elif window is not None:
        seen = int(near_mask(window, ones, ids, order).sum())
    spec = presets.gpt2("small")
    attention = AttentionSpec(768, 12, 12, 64, bool(causal), window=window, chunked=chunked)
    block = dataclasses.replace(spec.decoder.blocks[0], attention=attention)
    whole = EncoderSpec(encoder=dataclasses.replace(spec.decoder, blocks=(block,)))
    found = flops.prefill(whole, length)["encoder"]
    assert found.attention == 12 * 4 * 12 * 64 * seen
    if causal:
        last = int(causal_mask(Reach(window, chunked), ones, ids, order)[0, 0, -1].sum())
        decoder = dataclasses.replace(spec, decoder=dataclasses.replace(spec.decoder, blocks=(block,)))
        assert flops.step(decoder, length).attention == 12 * 4 * 12 * 64 * last


@dataclasses.dataclass(frozen=True)
class MadeUpAttentionSpec:
    """An unknown kind of attention with all fields of full attention."""

    hidden_size: int = 768
    num_heads: int = 12
    num_kv_heads: int = 12
    head_dim: int = 64
    causal: bool = False
    window: int | None = None
    has_position_bias: bool = False
    bias: bool = True
    output_bias: bool = True
    head_norm: None = None
    token_masks: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "asked",
    [
        lambda spec: flops.prefill(spec, 70),
        lambda spec: flops.scores_bytes(spec, 70),
        lambda spec: outline(spec.encoder),
        parts.parameters,
    ],
)
def test_an_attention_that_nobody_knows_is_refused_and_not_counted_as_full(asked):
    block = dataclasses.replace(PLAIN.encoder.blocks[0], attention=MadeUpAttentionSpec())
    spec = dataclasses.replace(PLAIN, encoder=dataclasses.replace(PLAIN.encoder, blocks=(block,)))
    with pytest.raises(AssertionError, match="MadeUpAttentionSpec"):
        asked(spec)


def test_last_token_of_a_prompt_costs_a_step():
    for spec, length in (
        (presets.gpt2("small"), 701),
        (presets.mistral_7b(), 701),
        (presets.mistral_7b(), 5000),
    ):
        before, after = (flops.prefill(spec, size)["decoder"] for size in (length - 1, length))
        assert after.total - before.total == flops.step(spec, length).total


def test_cache_is_as_large_as_the_arrays_of_a_run(bundle_of):
    for kind, model_type in (("static", "mistral"), ("dynamic", "llama")):
        found = txexport.inspect(bundle_of(model_type, kind), length=7, batch=3)
        model = txexport.load(bundle_of(model_type, kind))
        cache = open_cache(model.sessions["model"], kind, {}, 3, 7)
        cache.step(np.ones((3, 7), np.int64), np.full(3, 7))
        arrays = cache.buffers if kind == "static" else cache.past
        assert found.cache.total == sum(array.numpy().nbytes for array in arrays.values())
        assert found.cache.per_token * 21 == found.cache.total
        assert (found.cache.windowed, found.cache.layers) == (2 * (model_type == "mistral"), 2)


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_states_are_counted_beside_keys_and_values(kind, bundle_of):
    result = txexport.inspect(bundle_of("lfm2", kind), length=7, batch=3)
    model = txexport.load(bundle_of("lfm2", kind))
    cache = open_cache(model.sessions["model"], kind, {}, 3, 7)
    cache.step(np.ones((3, 7), np.int64), np.full(3, 7))
    grown = sum(
        array.numpy().nbytes for array in (cache.buffers if kind == "static" else cache.past).values()
    )
    row = [array.nbytes for name, array in cache.row(0).items() if name.startswith("past_conv.")]
    assert row == [4 * 48 * 3] * 3
    assert (result.cache.total, result.cache.states) == (grown, 3 * sum(row))
    assert result.cache.per_token * 21 == grown
    [parts] = result.parts
    assert sum(part.cache for group in parts.groups for part in group.sublayers) == grown + 3 * sum(row)


def test_cache_of_an_encoder_is_as_large_as_its_arrays(bundle_of):
    ids = np.ones((3, 7), np.int64)
    sources = {
        "bart": (7, {"input_ids": ids, "attention_mask": ids}),
        "whisper": (21, {"input_features": np.zeros((3, 11, 42), np.float32)}),
    }
    for model_type, (size, inputs) in sources.items():
        found = txexport.inspect(bundle_of(model_type), length=7, batch=3).cache
        outputs = txexport.load(bundle_of(model_type)).run("encoder_model", **inputs)
        kept = sum(array.nbytes for name, array in outputs.items() if ".encoder." in name)
        assert found.cross_total == kept == found.cross_per_token * 3 * size


def test_scores_are_those_of_the_layer_that_has_most(checkpoint_of):
    found = txexport.inspect(checkpoint_of("bart"), length=7, batch=3)
    assert found.scores_bytes == np.zeros((3, 4, 7, 7), np.float32).nbytes
    found = txexport.inspect(checkpoint_of("whisper"), length=7, batch=3)
    assert found.scores_bytes == np.zeros((3, 3, 21, 21), np.float32).nbytes


def visible(kind: str, length: int) -> int:
    """Pairs of a query and a visible key, counted one by one."""
    seen = 0
    for query, key in itertools.product(range(length), repeat=2):
        if kind == "local":
            seen += abs(query // 5 - key // 5) <= 1
        elif kind == "causal local":
            seen += 0 <= query // 5 - key // 5 <= 1 and key <= query
        elif kind == "longformer":
            seen += abs(query - key) <= 3
        elif kind == "linformer":
            seen += key < 4
        else:
            seen += 1
    return seen


SPARSE = {
    "local": LocalAttentionSpec(24, 2, 12, 5),
    "causal local": LocalAttentionSpec(24, 2, 12, 5, causal=True),
    "longformer": LongformerAttentionSpec(24, 2, 12, 6),
    "linformer": LinformerAttentionSpec(24, 2, 12, 40, 4),
    "low rank": LowRankAttentionSpec(24, 2, 12, 3),
    "bottleneck": BottleneckSpec(
        40, 2, 12, FeedForwardSpec(24, 30, Activation.RELU), 2, NormSpec(24, 1, NormKind.NONE)
    ),
}


@pytest.mark.parametrize("length", [4, 5, 23, 40])
@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_attention_counts_what_it_computes(kind, length):
    assert attention_operations.pairs(SPARSE[kind], length) == visible(kind, length)


@pytest.mark.parametrize("length", [4, 23])
def test_performer_counts_products_with_its_features(length):
    """Per head: queries and keys with M directions, keys with values, queries with their sums."""
    attention, features = PerformerAttentionSpec(24, 2, 12, 7), length * 7 * 12
    assert 4 * 12 * attention_operations.pairs(attention, length) == 2 * (2 * features + features + features)
    feed = FeedForwardSpec(24, 30, Activation.GELU)
    block = BlockSpec(attention, feed, NormSpec(24, 1e-5), NormPlacement.POST)
    embedding = EmbeddingSpec(31, 24, PositionSpec(PositionKind.LEARNED, 40))
    spec = EncoderSpec(TextStackSpec(embedding, (block,), 1), HeadSpec(HeadKind.NONE))
    work = flops.prefill(spec, length)["encoder"]
    assert work.attention == 2 * 4 * 12 * attention_operations.pairs(attention, length)
    assert work.matrices == 2 * length * (4 * 24 * 24 + 2 * 24 * 30)


@pytest.mark.parametrize("length", [4, 9, 23])
def test_strided_attention_counts_both_halves(length):
    near = sum(0 <= q - k <= 4 for q, k in itertools.product(range(length), repeat=2))
    far = sum(q - k >= 0 and (q - k) % 4 == 0 for q, k in itertools.product(range(length), repeat=2))
    assert attention_operations.pairs(StridedAttentionSpec(24, 2, 12, 4), length) == (near + far) // 2
