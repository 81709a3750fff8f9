"""Texts that run beside others come out as alone, whoever comes and goes meanwhile."""

import random
from dataclasses import replace

import numpy as np
import pytest

from txexport.contracts import roles
from txexport.contracts.names import INPUT_FEATURES
from txexport.errors import InputError
from txexport.runtime import load
from txexport.runtime.generation import running_batch
from txexport.runtime.generation.requests import request_of
from txexport.runtime.generation.running_batch import RunningBatch, rows_of

OPTIONS = (
    {},
    {"do_sample": True, "temperature": 1.7},
    {"do_sample": True, "top_p": 0.8, "repetition_penalty": 1.3},
    {"no_repeat_ngram_size": 2},
    {"stop_strings": ["a", "e"]},
    {"suppress_tokens": [5, 6, 7]},
)


def load_alone(folder):
    return load(folder, device="cpu", threads=1)


def asked(count, vocab, rng):
    """Prompts of many lengths, each with options of its own."""
    for number in range(count):
        prompt = [rng.randrange(3, vocab) for _ in range(rng.choice([1, 2, 9, 20]))]
        options = OPTIONS[number % len(OPTIONS)] | {"max_new_tokens": rng.choice([1, 2, 7, 19])}
        yield prompt, options | ({"seed": number} if "do_sample" in options else {})


def drive(batch, rows, rng):
    """Let rows come a few at a time until all are done; the most that ran at once."""
    left, most = list(rows), 0
    while left or batch.busy:
        for _ in range(min(len(left), rng.choice([0, 0, 1, 2]))):
            batch.add(left.pop(0))
        batch.step()
        most = max(most, len(batch.running))
    return most


def test_a_wrong_option_is_told_before_others_read_their_prompts_beside_it(bundle_of):
    bundle = load_alone(bundle_of("gpt2", "static")).bundle
    with pytest.raises(InputError, match="50256"):
        rows_of(request_of(bundle, [[5, 6]], None, {"logit_bias": {50256: -100.0}}))


KINDS = [
    ("gpt2", "static"),
    ("gpt2", "dynamic"),
    ("bloom", "static"),
    ("mistral", "dynamic"),
    ("bart", "static"),
    ("bart", "dynamic"),
    ("t5", "static"),
]


@pytest.mark.parametrize(("model_type", "cache"), KINDS)
def test_every_text_is_that_of_a_run_alone(bundle_of, monkeypatch, model_type, cache):
    """Rows join and leave at random, prompts are read in chunks, and buffers grow and shrink."""
    monkeypatch.setattr(running_batch, "PROMPT_TOKENS", 12)
    model, rng = load_alone(bundle_of(model_type, cache)), random.Random(7)
    jobs = list(asked(18, 24, rng))
    expected = [
        model.generate_with_scores([prompt], log_probs=True, **options)[0] for prompt, options in jobs
    ]
    rows = []
    for prompt, options in jobs:
        request = replace(request_of(model.bundle, [prompt], None, options), log_probs=True)
        rows.append(rows_of(request, 3))
    most = drive(RunningBatch(model.bundle, 400), rows, rng)
    assert most >= 4
    for [row], alone in zip(rows, expected, strict=True):
        assert row.error is None
        assert row.result.tokens == alone.tokens
        np.testing.assert_allclose(row.result.log_probs, alone.log_probs, atol=2e-5)
        assert [len(step) for step in row.likeliest] == [3] * len(alone.tokens)


def test_spectrograms_come_and_go_too(bundle_of):
    model, rng = load_alone(bundle_of("whisper", "static")), random.Random(1)
    shape = model.sessions[roles.ENCODER].inputs[INPUT_FEATURES].shape[1:]
    sounds = np.random.default_rng(2).standard_normal((6, *shape)).astype(np.float32)
    options = [{"max_new_tokens": 3 + 4 * (number % 3)} for number in range(len(sounds))]
    expected = [model.generate_ids([one], **own)[0] for one, own in zip(sounds, options, strict=True)]
    rows = [
        rows_of(request_of(model.bundle, [one], None, own)) for one, own in zip(sounds, options, strict=True)
    ]
    assert drive(RunningBatch(model.bundle, 10**6), rows, rng) > 1
    assert [row.result.tokens for [row] in rows] == expected


def test_eight_bit_rows_do_not_depend_on_who_runs_beside_them(integers_of):
    model, rng = load_alone(integers_of("gpt2")), random.Random(3)
    jobs = list(asked(10, 30, rng))
    expected = [model.generate_ids([prompt], **options)[0] for prompt, options in jobs]
    rows = [rows_of(request_of(model.bundle, [prompt], None, options)) for prompt, options in jobs]
    assert drive(RunningBatch(model.bundle, 400), rows, rng) >= 3
    assert [row.result.tokens for [row] in rows] == expected


def test_copies_draw_what_generate_draws_for_them(bundle_of):
    model = load_alone(bundle_of("gpt2", "static"))
    options = {"do_sample": True, "seed": 5, "num_return_sequences": 3, "max_new_tokens": 8}
    expected = model.generate_ids([[3, 4], [9]], **options)
    rows = rows_of(request_of(model.bundle, [[3, 4], [9]], None, options))
    batch = RunningBatch(model.bundle)
    batch.add(rows)
    while batch.busy:
        batch.step()
    assert [row.result.tokens for row in rows] == expected


@pytest.mark.parametrize(("model_type", "cache"), [("gpt2", "static"), ("gpt2", "dynamic"), ("t5", "static")])
def test_copies_read_their_prompt_once(bundle_of, monkeypatch, model_type, cache):
    """And go on from what it left: copies of a prompt come at a prompt's price."""
    model, read = load_alone(bundle_of(model_type, cache)), []
    options = {"do_sample": True, "seed": 5, "num_return_sequences": 4, "max_new_tokens": 8}
    prompts = [[3, 4, 5, 6, 7], [9, 8]]
    expected = model.generate_ids(prompts, **options)
    reading = running_batch._Reading.__init__

    def watched(self, rows):
        reading(self, rows)
        read.append(self.ids.shape[0])

    monkeypatch.setattr(running_batch._Reading, "__init__", watched)
    batch, rows = RunningBatch(model.bundle), rows_of(request_of(model.bundle, prompts, None, options))
    batch.add(rows)
    while batch.busy:
        batch.step()
    assert [row.result.tokens for row in rows] == expected
    assert read == [2]


def test_a_row_that_fails_or_goes_leaves_the_others_alone(bundle_of):
    model = load_alone(bundle_of("gpt2", "static"))

    def fails(tokens, scores):
        if len(tokens[0]) > 5:
            raise InputError("no more")
        return scores

    def row(processor=None):
        return rows_of(request_of(model.bundle, [[3, 4, 5]], processor, {"max_new_tokens": 12}))[0]

    failing, going, gone, waiting = row(fails), row(), row(), row()
    batch = RunningBatch(model.bundle, cache_tokens=15 * 3)
    batch.add([failing, going, gone, waiting])
    for _ in range(4):
        batch.step()
    assert len(batch.waiting) == 1 - int(failing.done)
    gone.cancelled = True
    while batch.busy:
        batch.step()
    assert str(failing.error) == "no more"
    assert gone.done
    assert len(gone.result.tokens) < 12
    expected = model.generate_ids([[3, 4, 5]], max_new_tokens=12)[0]
    assert going.result.tokens == waiting.result.tokens == expected


def test_a_row_that_goes_while_the_others_are_looked_at_is_not_lost(bundle_of):
    bundle = load_alone(bundle_of("gpt2", "static")).bundle
    first, row = rows_of(request_of(bundle, [[5], [6]], None, {"max_new_tokens": 3}))

    class Late(running_batch.RunningRow):
        looks = 0

        @property
        def cancelled(self):
            self.looks += 1
            return self.looks > 1

        @cancelled.setter
        def cancelled(self, value):
            pass

    late, batch, told = Late(row.request, row.cost), RunningBatch(bundle, first.cost), []
    first.cancelled = True
    batch.add([first, late])
    while batch.busy:
        told += batch.step()
    assert late.done
    assert late in told


def test_rows_wait_for_room_and_long_ones_run_alone(bundle_of):
    model = load_alone(bundle_of("gpt2", "static"))
    rows = [rows_of(request_of(model.bundle, [[3]], None, {"max_new_tokens": n}))[0] for n in (9, 9, 30, 9)]
    batch, together = RunningBatch(model.bundle, cache_tokens=20), set()
    batch.add(rows)
    while batch.busy:
        batch.step()
        together.add(tuple(rows.index(row) for row in batch.running))
    assert together == {(0, 1), (2,), (3,), ()}


def test_buffers_go_with_their_rows(bundle_of):
    """Else a server's memory would stay what its busiest moment took."""
    model = load_alone(bundle_of("gpt2", "static"))
    rows = [rows_of(request_of(model.bundle, [[3]], None, {"max_new_tokens": n}))[0] for n in [3] * 15 + [9]]
    batch, slots = RunningBatch(model.bundle), []
    batch.add(rows)
    while batch.busy:
        batch.step()
        slots += [group.cache.slots for group in batch.groups]
    assert slots[0] == 16
    assert slots[-1] <= 2
    assert batch.groups == []


def test_beams_cannot_come_and_go(bundle_of):
    model = load_alone(bundle_of("gpt2", "static"))
    with pytest.raises(InputError, match="num_beams is 2, expected 1 with continuous batching"):
        rows_of(request_of(model.bundle, [[3]], None, {"num_beams": 2}))
