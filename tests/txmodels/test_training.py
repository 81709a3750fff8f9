"""Training of the components: objectives against independent ones, schedules, checkpoints."""

import json
import math
import runpy
from dataclasses import replace

import _loop
import click
import numpy as np
import pytest
import tiny_checkpoint
import torch
from helpers.project import ROOT
from sklearn.metrics import f1_score
from txmodels.model import model as transformer
from txmodels.training import checkpoints, corruption, initialisation, metrics, objectives, optimisation

import txexport
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, InputError
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

IGNORED = objectives.IGNORED


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_causal_loss_is_that_of_transformers():
    model = tiny_checkpoint.build("gpt2")
    ids, mask = torch.randint(3, 311, (3, 9), generator=generator()), torch.ones(3, 9, dtype=torch.long)
    mask[1, 5:] = 0
    outputs = model(ids, attention_mask=mask, labels=ids.masked_fill(mask == 0, IGNORED))
    assert objectives.causal_loss(outputs.logits, ids, mask).item() == pytest.approx(
        outputs.loss.item(), 1e-6
    )
    assert objectives.causal_loss(outputs.logits, ids).item() != pytest.approx(outputs.loss.item(), 1e-3)


def test_pretraining_loss_is_that_of_transformers():
    model = tiny_checkpoint.build("bert", "BertForPreTraining")
    ids = torch.randint(5, 311, (2, 12), generator=generator())
    shown, labels = corruption.mask_words(ids, 4, 311, range(5), generator(1), rate=0.5)
    pairs = torch.tensor([1, 0])
    outputs = model(shown, labels=labels, next_sentence_label=pairs)
    logits = outputs.prediction_logits, outputs.seq_relationship_logits
    loss = objectives.pretraining_loss(logits[0], labels, logits[1], pairs)
    assert loss.item() == pytest.approx(outputs.loss.item(), 1e-6)


def test_span_loss_is_that_of_transformers():
    model = tiny_checkpoint.build("bert", "BertForQuestionAnswering")
    ids = torch.randint(5, 311, (3, 12), generator=generator())
    starts, ends = torch.tensor([0, 4, 50]), torch.tensor([3, 4, 50])  # the last lies beyond the text
    outputs = model(ids, start_positions=starts, end_positions=ends)
    loss = objectives.span_loss(outputs.start_logits, outputs.end_logits, starts, ends)
    assert loss.item() == pytest.approx(outputs.loss.item(), 1e-6)


def test_smoothed_targets_of_an_encoder_decoder():
    logits = torch.randn(2, 3, 5, generator=generator())
    labels = torch.tensor([[1, 2, IGNORED], [4, IGNORED, IGNORED]])
    scores = logits.log_softmax(-1)
    told = scores[labels >= 0], labels[labels >= 0]
    wanted = [-(0.9 * s[y] + 0.1 * s.mean()) for s, y in zip(*told, strict=True)]
    assert objectives.token_loss(logits, labels, 0.1).item() == pytest.approx(np.mean(wanted), 1e-6)


def test_shift_right_is_that_of_transformers():
    from transformers.models.bart.modeling_bart import shift_tokens_right

    labels = torch.tensor([[5, 6, 2, IGNORED], [7, 2, IGNORED, IGNORED]])
    assert objectives.shift_right(labels, 3, 1).equal(shift_tokens_right(labels, 1, 3))


def test_auxiliary_language_loss_counts_half():
    logits, labels = torch.tensor([[2.0, 0.0]]), torch.tensor([0])
    alone = objectives.classification_loss(logits, labels)
    assert alone.item() == pytest.approx(math.log1p(math.exp(-2)))
    both = objectives.classification_loss(logits, labels, torch.tensor(3.0))
    assert both.item() == pytest.approx(alone.item() + 1.5)


def test_masked_words_follow_the_paper():
    ids = torch.randint(5, 1000, (400, 128), generator=generator())
    ids[:, 0] = 2
    shown, labels = corruption.mask_words(ids, 4, 1000, range(5), generator(1))
    chosen, count = labels != IGNORED, 400 * 127
    assert not chosen[:, 0].any()
    assert labels[chosen].equal(ids[chosen])
    assert shown[~chosen].equal(ids[~chosen])
    spread = 5 * math.sqrt(0.25 / (0.15 * count))  # five standard deviations at most
    assert chosen.sum().item() / count == pytest.approx(0.15, abs=5 * math.sqrt(0.15 * 0.85 / count))
    masked = shown[chosen] == 4
    kept = shown[chosen] == ids[chosen]
    assert masked.float().mean().item() == pytest.approx(0.8, abs=spread)
    assert kept.float().mean().item() == pytest.approx(0.1 + 0.1 / 1000, abs=spread)
    again, _ = corruption.mask_words(ids, 4, 1000, range(5), generator(1))
    assert again.equal(shown)


@pytest.mark.parametrize("length", [2, 3, 7, 100, 512])
def test_spans_can_be_put_back(length):
    ids, sentinels = list(range(length)), list(range(1099, 999, -1))
    for seed in range(20):
        source, target = corruption.corrupt_spans(ids, sentinels, np.random.default_rng(seed))
        said: dict[int, list[int]] = {}
        for token in target:
            if token >= 1000:
                said[token] = []
            else:
                said[max(said, key=lambda s: -s)].append(token)
        whole = [t for token in source for t in (said[token] if token >= 1000 else [token])]
        assert whole == ids
        lost = sum(map(len, said.values()))
        assert len(said) - 1 == max(1, round(lost / 3))
        assert lost == max(1, round(0.15 * length))
        assert list(said) == sentinels[: len(said)]
        assert said[target[-1]] == []


def test_spans_need_tokens_and_sentinels():
    random = np.random.default_rng(0)
    with pytest.raises(InputError, match="at least 2 tokens"):
        corruption.corrupt_spans([7], [100], random)
    with pytest.raises(InputError, match="sentinels"):
        corruption.corrupt_spans(range(100), [1000, 999], random)


def test_pairs_follow_one_another_half_of_the_time():
    documents = [[[100 * d + s] * 3 for s in range(10)] for d in range(6)]
    random, count = np.random.default_rng(0), 0
    for _ in range(2000):
        first, second, elsewhere = corruption.next_sentence_pair(documents, 24, random)
        assert 0 < len(first) <= 12
        assert 0 < len(second) <= 24 - len(first)
        if elsewhere:
            assert first[0] // 100 != second[0] // 100
        else:
            assert second[0] == first[-1] + 1
        count += elsewhere
    assert abs(count - 1000) < 5 * math.sqrt(500)


def rates(schedule, steps):
    found = []
    for _ in range(steps):
        found.append(schedule.get_last_lr()[0])
        schedule.optimizer.step()
        schedule.step()
    return np.array(found)


def test_schedules_are_those_of_the_papers():
    layer = torch.nn.Linear(2, 2)
    noam = rates(optimisation.inverse_square_root(optimisation.adam_2017(layer), 512, 4000), 8000)
    steps = np.arange(1, 8001)
    np.testing.assert_allclose(noam, 512**-0.5 * np.minimum(steps**-0.5, steps * 4000**-1.5), rtol=1e-12)
    line = rates(optimisation.linear(optimisation.adamw(layer, 0.1), 10, 100), 101)
    assert line[[0, 9, 10, 55, 100]] == pytest.approx([0.01, 0.1, 0.1, 0.05, 0.0])


def test_adamw_spares_vectors():
    optimizer = optimisation.adamw(transformer(bert_like()), 0.1)
    matrices, vectors = (group["params"] for group in optimizer.param_groups)
    assert {p.ndim for p in vectors} == {1}
    assert min(p.ndim for p in matrices) == 2
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.01, 0.0]


def test_metrics():
    labels, said = ["a", "b", "O", "O", "a"], ["a", "O", "O", "b", "a"]
    found = metrics.classification(labels, said, positive=["a", "b"])
    assert found["f1"] == f1_score(labels, said, labels=["a", "b"], average="micro") == pytest.approx(2 / 3)
    assert found["accuracy"] == 0.6
    assert metrics.exact_match(["x", "y"], ["x", "z"]) == 0.5
    assert metrics.token_f1("The cat, sat.", "a cat stood") == 0.5
    assert metrics.token_f1("the", "") == 1.0
    references, transcripts = ["one two three", "four"], ["one too three", "before four"]
    assert metrics.word_error_rate(references, transcripts) == 2 / 4
    assert metrics.character_error_rate(references, transcripts) == (1 + 7) / 17
    assert metrics.character_error_rate(["ab"], [""]) == 1
    assert metrics.perplexity([math.log(0.5), math.log(0.125)]) == pytest.approx(4)


def bert_like(layers=2):
    norm = NormSpec(24, 1e-12)
    block = BlockSpec(
        AttentionSpec(24, 3, 3, 8, causal=False),
        FeedForwardSpec(24, 40, Activation.GELU),
        norm,
        NormPlacement.POST,
    )
    words = EmbeddingSpec(50, 24, PositionSpec(PositionKind.LEARNED, 30), type_vocab_size=2, norm=norm)
    return EncoderSpec(
        encoder=TextStackSpec(words, (block,), layers),
        head=HeadSpec(HeadKind.TOKENS, tied=False, bias=True, labels=3),
    )


CAUSAL = HeadSpec(HeadKind.CAUSAL_LM)


def transformer_spec():
    """The Transformer of 2017, small."""
    norm, ffn = NormSpec(24, 1e-6), FeedForwardSpec(24, 40, Activation.RELU)

    def attention(causal):
        return AttentionSpec(24, 3, 3, 8, causal, bias=False, output_bias=False)

    words = EmbeddingSpec(50, 24, PositionSpec(PositionKind.FIXED, 30), scale=24**0.5)
    encoder = BlockSpec(attention(False), ffn, norm, NormPlacement.POST)
    decoder = BlockSpec(attention(True), ffn, norm, NormPlacement.POST, attention(False))
    stacks = TextStackSpec(words, (encoder,), 2), TextStackSpec(words, (decoder,), 2)
    return EncoderDecoderSpec(*stacks, head=CAUSAL, shared_embedding=True)


# They keep their norms' scales less one, which costs a bit each way.
LESS_ONE = (
    "gemma",
    "t5gemma",
    "gemma2",
    "vaultgemma",
    "gemma3_text",
    "gemma3",
    "paligemma",
    "colpali",
    "nemotron",
    "recurrent_gemma",
)
LESS_ONE += ("falcon_h1",)  # or have multipliers in their weights
LESS_ONE += ("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text")


@pytest.mark.parametrize("family", tiny_checkpoint.FAMILIES)
def test_a_checkpoint_saved_like_another_is_the_same(family, tmp_path):
    tiny_checkpoint.save(tmp_path / "one", family)
    model = checkpoints.load(tmp_path / "one")
    checkpoints.save(model, tmp_path / "two", like=tmp_path / "one")
    one, two = Checkpoint(tmp_path / "one"), Checkpoint(tmp_path / "two")
    numbers = {name for name, tensor in one.tensors.items() if tensor.dtype in checkpoints.FLOATS}
    assert numbers == two.tensors.keys()  # a batch norm counts its batches in integers
    for name in numbers:
        bound = 2.5e-7 if family in LESS_ONE else 0
        np.testing.assert_allclose(one.read(name), two.read(name), rtol=0, atol=bound)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * parameter.requires_grad)
    checkpoints.save(model, tmp_path / "two", like=tmp_path / "one")
    moved = Checkpoint(tmp_path / "two")
    again = dict(checkpoints.load(tmp_path / "two").named_parameters())
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(again[name].detach(), parameter.detach(), atol=3e-7)
    assert any(not np.array_equal(one.read(name), moved.read(name)) for name in numbers)


def test_a_checkpoint_of_another_architecture_is_refused(tmp_path):
    tiny_checkpoint.save(tmp_path / "one", "bert")
    with pytest.raises(CheckpointError, match="another architecture"):
        checkpoints.save(transformer(bert_like()), tmp_path / "two", like=tmp_path / "one")
    assert not (tmp_path / "two").exists()


def trained(folder, steps=20, killed_at=None, kept=None, data="numbers", **options):
    """A model trained by the recipes' loop; `kept` takes the first parameter's value before each step."""
    torch.manual_seed(0)
    model = transformer(bert_like())
    initialisation.xavier(model)

    def loss_of(step):
        if kept is not None:
            kept.append(next(model.parameters()).detach().clone())
        if step == killed_at:
            raise KeyboardInterrupt
        ids = torch.randint(50, (4, 7), generator=generator(step))
        return objectives.token_loss(model.encode(ids, torch.ones_like(ids), ids % 2)["logits"], ids % 3)

    optimizer = optimisation.adamw(model, 1e-2)
    folder.mkdir(exist_ok=True)
    schedule = optimisation.linear(optimizer, 5, 20)
    _loop.train(model, loss_of, optimizer, schedule, steps, folder, data, **options)
    return model


@pytest.mark.parametrize("options", [{}, {"average_last": 0.5}])
def test_training_goes_on_after_a_kill_as_if_there_had_been_none(options, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_loop, "SAVE_SECONDS", 0)
    monkeypatch.setattr(_loop, "AVERAGE_EVERY", 3)
    whole = trained(tmp_path / "a", **options)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "b", killed_at=15, **options)
    resumed = trained(tmp_path / "b", **options)
    assert "going on from step 15 of 20" in capsys.readouterr().out
    ended = trained(tmp_path / "b", killed_at=0, **options)  # killed after the last step, it takes none
    for one, other, third in zip(*(model.parameters() for model in (whole, resumed, ended)), strict=True):
        assert one.equal(other)
        assert one.equal(third)


def test_average_is_of_the_last_models(tmp_path, monkeypatch):
    monkeypatch.setattr(_loop, "AVERAGE_EVERY", 4)
    kept: list = []
    plain = trained(tmp_path / "a", kept=kept)
    averaged = trained(tmp_path / "b", average_last=0.5)
    steps = [*kept[1:], next(plain.parameters()).detach()]  # after each step
    wanted = torch.stack([steps[11], steps[15], steps[19]]).mean(0)
    torch.testing.assert_close(next(averaged.parameters()).detach(), wanted)


def test_training_of_other_steps_or_data_is_not_gone_on_with(tmp_path):
    trained(tmp_path / "a")
    for other in ({"steps": 10}, {"data": "letters"}):
        with pytest.raises(click.ClickException, match="remove it to start again"):
            trained(tmp_path / "a", **other)


def test_a_transformer_put_together_by_hand_is_trained_saved_exported_proved_and_run(tmp_path):
    """The guides' example for researchers: alternating sparse and full attention, which is no family."""
    example = runpy.run_path(str(ROOT / "examples/compose/compose.py"))
    assert example["lonely"]("(a))(b") == [0, 0, 0, 1, 1, 0]
    assert example["main"](tmp_path, steps=150) > 0.93
    report = txexport.verify(tmp_path / "bundle", cases="quick")
    assert report.ok
    skipped = {case.skipped for case in report.cases if case.reference == "transformers"}
    assert skipped == {"put together by hand, of which transformers has no original"}


def plain_decoder():
    decoder = transformer_spec().decoder
    return replace(decoder, blocks=(replace(decoder.blocks[0], cross_attention=None),))


@pytest.mark.parametrize("both", [False, True])
def test_decoders_put_together_by_hand(both, tmp_path):
    spec = transformer_spec() if both else DecoderSpec(plain_decoder(), CAUSAL)
    torch.manual_seed(1)
    model = transformer(spec)
    initialisation.xavier(model)
    checkpoints.save(model, tmp_path / "checkpoint", settings={"decoder_start_token_id": 3})
    assert json.loads((tmp_path / "checkpoint/config.json").read_text())["model_type"] == "txexport"
    txexport.export(tmp_path / "checkpoint", tmp_path / "bundle")
    assert txexport.verify(tmp_path / "bundle", cases="quick").ok


def test_a_model_is_still_made_by_its_former_name():
    with pytest.warns(DeprecationWarning, match=r"is now txmodels\.model\.model"):
        from txmodels.model import Model
    assert sum(one.numel() for one in Model(bert_like()).parameters()) > 0
