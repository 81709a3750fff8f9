"""Many prompts: in batches under a budget of tokens, answered in order, each as it would be alone."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime import load
from txexport.runtime.batches import batches_by_length

PROMPTS = [[5 + i % 50] * (1 + 7 * i % 13) for i in range(19)]
NEW = 6


@pytest.fixture
def model_of(bundle_of):
    """A function from a model_type and a cache to its model."""

    def get(model_type: str, cache: str = "static"):
        return load(bundle_of(model_type, cache), device="cpu", threads=1)

    return get


def test_batches_keep_to_the_budget_and_leave_nothing_out():
    lengths, costs = [3, 9, 4, 4, 1, 30, 2], [5, 11, 6, 6, 3, 32, 4]
    batches = list(batches_by_length(lengths, costs, 24))
    assert batches == [[5], [1, 2], [0, 3, 4, 6]]
    assert all(len(batch) == 1 or len(batch) * max(costs[i] for i in batch) <= 24 for batch in batches)
    assert list(batches_by_length([], [], 5)) == []
    with pytest.raises(InputError, match="batch_tokens is 0, expected at least 1"):
        list(batches_by_length([1], [1], 0))


def test_batches_of_one_length_alone():
    lengths = [3, 9, 4, 4, 9, 3, 2, 4]
    batches = list(batches_by_length(lengths, lengths, 18, equal=True))
    assert batches == [[1, 4], [2, 3, 7], [0, 5], [6]]


def test_texts_of_a_model_that_reads_padding_are_answered_as_alone(bundle_of):
    """A Fourier transform has no mask: a padded row would have another vector."""
    model = load(bundle_of("fnet", None), device="cpu", threads=1)
    texts = ["a", "the cat sat on the mat", "b", "no", "the dog lay on the rug"]
    together = model.embed(texts, pooling="mean")
    for text, vector in zip(texts, together, strict=True):
        assert np.abs(model.embed([text], pooling="mean")[0] - vector).max() < 1e-5


OPTIONS = {
    "greedy": {},
    "beams": {"num_beams": 3, "num_return_sequences": 2},
    "groups of beams": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "samples": {"do_sample": True, "seed": 3, "num_return_sequences": 2},
    "samples of beams": {"do_sample": True, "seed": 3, "num_beams": 2},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("model_type", ["gpt2", "bart"])
def test_answers_do_not_depend_on_the_batches(options, model_type, model_of):
    model, given, done = model_of(model_type), OPTIONS[options] | {"max_new_tokens": NEW}, []
    whole = model.generate_ids(PROMPTS, batch_tokens=10**6, **given)
    found = model.generate_ids(PROMPTS, batch_tokens=150, progress=lambda *at: done.append(at), **given)
    assert found == whole
    assert done[-1] == (19, 19)
    assert len(done) > 2
    parts = [PROMPTS[:7], PROMPTS[7:]]
    first, second = (model.generate_ids(part, first_place=7 * i, **given) for i, part in enumerate(parts))
    assert first + second == whole
    rows = [now - before for (now, _), (before, _) in zip(done, [(0, 19), *done], strict=False)]
    copies = max(given.get("num_beams", 1), given.get("num_return_sequences", 1))
    assert max(rows) > 1
    assert all(count == 1 or count * copies * NEW < 150 for count in rows)


def test_a_sample_depends_on_the_seed_and_the_place_alone(model_of):
    model, options = model_of("gpt2"), {"do_sample": True, "max_new_tokens": 12}
    rows = model.generate_ids([[5, 6], [5, 6], [9]], seed=7, **options)
    assert rows[0] != rows[1]
    assert model.generate_ids([[5, 6]], seed=7, **options) == rows[:1]
    assert model.generate_ids([[8, 8, 8], [5, 6]], seed=7, **options)[1] == rows[1]
    assert model.generate_ids([[5, 6], [5, 6], [9]], seed=8, **options) != rows
    assert model.generate_ids([[5, 6]], **options) != model.generate_ids([[5, 6]], **options)


def test_a_prompt_that_is_too_long_is_said_before_any_runs(model_of):
    done: list = []
    with pytest.raises(InputError, match="a prompt of 38 tokens and 6 new ones exceed the model's 40"):
        model_of("gpt2").generate_ids(
            [[5], [6] * 38], max_new_tokens=NEW, batch_tokens=1, progress=lambda *at: done.append(at)
        )
    assert done == []


def test_streams_of_many_come_batch_by_batch(model_of):
    model, prompts = model_of("gpt2"), ["the cat", "a dog on the mat", "rug", "the rug and the dog"]
    texts, order = [""] * 4, []
    for row, piece in model.stream_many(prompts, max_new_tokens=8, batch_tokens=1):
        texts[row] += piece
        order.append(row)
    assert texts == model.generate(prompts, max_new_tokens=8)
    assert [row for i, row in enumerate(order) if row not in order[:i]] == sorted(
        range(4), key=lambda i: -len(model.text.encode(prompts)[i])
    )


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_scores_do_not_depend_on_the_batches(cache, model_of, monkeypatch):
    texts = ["the cat sat", "a", "the dog lay on the rug and the cat sat on the mat", "rug", "the mat"]
    for model_type, targets in (("gpt2", None), ("bart", texts[::-1])):
        model, done = model_of(model_type, cache), []
        whole = model.score(texts, targets)
        parts = model.score(texts, targets, batch_tokens=30, progress=lambda *at, to=done: to.append(at))
        assert len(done) > 1
        assert done[-1] == (5, 5)
        monkeypatch.setattr(
            "txexport.runtime.generation.scoring.SCORES_AT_ONCE", 5 * 311 * 2
        )  # 2 tokens of each row
        chunked = model.score(texts, targets)
        monkeypatch.undo()
        for one, *others in zip(whole, parts, chunked, strict=True):
            for other in others:
                assert other.tokens == one.tokens
                assert other.log_probs == pytest.approx(one.log_probs, abs=1e-5)


def test_command_answers_many_prompts_in_order(bundle_of, model_of, tmp_path):
    prompts = ["the cat", "a dog on the mat and the rug", "rug"]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts) + "\n")
    command = [
        "generate",
        str(bundle_of("gpt2", "static")),
        "--file",
        str(tmp_path / "prompts.txt"),
        "--json",
    ]
    done = CliRunner().invoke(main, [*command, "--batch-tokens", "1", "--max-new-tokens", "5"])
    found = [json.loads(line) for line in done.output.splitlines()]
    texts = model_of("gpt2").generate(prompts, max_new_tokens=5)
    assert found == [{"prompt": a, "text": b} for a, b in zip(prompts, texts, strict=True)]
