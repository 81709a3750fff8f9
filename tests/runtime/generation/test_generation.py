"""Generation as transformers' `generate` does it, and what an application does with it."""

import dataclasses

import numpy as np
import pytest
import torch
import transformers

from txexport.errors import InputError
from txexport.runtime import load
from txexport.runtime.generation import prefill
from txexport.runtime.generation.kv_cache import StaticCache
from txexport.runtime.preprocessing.pieces import Pieces

PROMPTS = [[5, 6, 7], [9], [20, 21, 22, 23, 24], [40, 41]]
AUTO = {
    "gpt2": transformers.AutoModelForCausalLM,
    "llama": transformers.AutoModelForCausalLM,
    "bart": transformers.AutoModelForSeq2SeqLM,
    "t5": transformers.AutoModelForSeq2SeqLM,
}
BEAMS = {
    "three": {"num_beams": 3},
    "several returned": {"num_beams": 4, "num_return_sequences": 3, "length_penalty": 1.7},
    "early": {"num_beams": 3, "early_stopping": True},
    "never early": {"num_beams": 4, "early_stopping": "never", "length_penalty": -0.5},
    "never early, long": {"num_beams": 2, "early_stopping": "never", "length_penalty": 2.0},
    "penalties": {"num_beams": 3, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "min_new_tokens": 4},
}


@pytest.fixture
def model_of(bundle_of):
    """A function from a model_type and a cache to its model, for prompts of any kind."""

    def get(model_type: str, cache: str = "static"):
        return load(bundle_of(model_type, cache), device="cpu", threads=1)

    return get


def original(checkpoint_of, model_type: str):
    return AUTO[model_type].from_pretrained(checkpoint_of(model_type)).eval()


def generated(model, prompt, **options):
    """New tokens and scores of transformers for one prompt, without padding and start."""
    ids = torch.tensor([prompt])
    found = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        pad_token_id=1,
        return_dict_in_generate=True,
        output_scores=True,
        **options,
    )
    start = 1 if model.config.is_encoder_decoder else len(prompt)
    rows = [row[start:] for row in found.sequences.tolist()]
    return rows, found.get("sequences_scores")


def likely_end(model) -> int:
    """An end of sequence that these random weights do choose, so that rows end at different times."""
    return model.generate_ids(PROMPTS, max_new_tokens=25, eos_token_id=None)[2][4]


@pytest.mark.parametrize("cache", ["static", "dynamic"])
@pytest.mark.parametrize("options", BEAMS)
@pytest.mark.parametrize("model_type", AUTO)
def test_beams_and_their_scores_equal_transformers(model_type, options, cache, checkpoint_of, model_of):
    ours, theirs = model_of(model_type, cache), original(checkpoint_of, model_type)
    given = BEAMS[options] | {"max_new_tokens": 15, "eos_token_id": likely_end(ours)}
    found, copies = ours.generate_with_scores(PROMPTS, **given), given.get("num_return_sequences", 1)
    for i, prompt in enumerate(PROMPTS):
        rows, scores = generated(theirs, prompt, **given)
        for j, (row, score) in enumerate(zip(rows, scores.tolist(), strict=True)):
            mine = found[i * copies + j]
            assert mine.tokens == row[: len(mine.tokens)]
            assert set(row[len(mine.tokens) :]) <= {1}
            assert mine.score == pytest.approx(score, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("model_type", ["gpt2", "bart"])
@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1.4, "min_new_tokens": 6},
        {"no_repeat_ngram_size": 2, "suppress_tokens": [7, 30]},
        {"bad_words_ids": [[5], [9, 9]], "forced_eos_token_id": 3},
        {"sequence_bias": {(6,): 2.0, (7, 8): -3.0}, "exponential_decay_length_penalty": (2, 1.3)},
    ],
    ids=lambda options: ", ".join(options),
)
def test_greedy_options_equal_transformers(model_type, options, checkpoint_of, model_of):
    ours, theirs = model_of(model_type), original(checkpoint_of, model_type)
    given = options | {"max_new_tokens": 15, "eos_token_id": likely_end(ours)}
    found = ours.generate_ids(PROMPTS, **given)
    for prompt, tokens in zip(PROMPTS, found, strict=True):
        assert [tokens] == generated(theirs, prompt, **given)[0]


def test_samples_follow_the_models_distribution(model_of, checkpoint_of):
    """6,000 first tokens under temperature, top_k and top_p: within 5 standard deviations, each of them."""
    model, count = model_of("gpt2"), 6000
    options = {"do_sample": True, "temperature": 0.7, "top_k": 12, "top_p": 0.9}
    rows = model.generate_ids([[5, 6, 7]], max_new_tokens=1, num_return_sequences=count, seed=4, **options)
    with torch.no_grad():
        scores = original(checkpoint_of, "gpt2")(torch.tensor([[5, 6, 7]])).logits[0, -1:]
    for warper in (
        transformers.TemperatureLogitsWarper(0.7),
        transformers.TopKLogitsWarper(12),
        transformers.TopPLogitsWarper(0.9),
    ):
        scores = warper(None, scores)
    expected = scores.softmax(dim=-1)[0].numpy()
    found = np.bincount([row[0] for row in rows], minlength=len(expected)) / count
    assert (found[expected == 0] == 0).all()
    assert (np.abs(found - expected) <= 5 * np.sqrt(expected * (1 - expected) / count)).all()
    assert (expected > 0).sum() > 3


def test_a_seed_repeats_a_sample_and_another_does_not(model_of):
    model, options = model_of("gpt2"), {"do_sample": True, "max_new_tokens": 12}
    assert model.generate_ids(PROMPTS, seed=1, **options) == model.generate_ids(PROMPTS, seed=1, **options)
    assert model.generate_ids(PROMPTS, seed=1, **options) != model.generate_ids(PROMPTS, seed=2, **options)


@pytest.mark.parametrize("cache", ["static", "dynamic"])
@pytest.mark.parametrize("model_type", ["gpt2", "bart"])
def test_a_row_does_not_depend_on_those_that_left(model_type, cache, model_of):
    model = model_of(model_type, cache)
    options = {"max_new_tokens": 20, "eos_token_id": likely_end(model)}
    together = model.generate_with_scores(PROMPTS, log_probs=True, **options)
    assert len({len(found.tokens) for found in together}) > 1
    for prompt, found in zip(PROMPTS, together, strict=True):
        alone = model.generate_with_scores([prompt], log_probs=True, **options)[0]
        assert alone.tokens == found.tokens
        assert found.log_probs == pytest.approx(alone.log_probs, abs=1e-5)


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_prompts_in_chunks_give_the_same(cache, model_of, monkeypatch):
    model = model_of("gpt2", cache)
    prompts = [list(range(30)), [9], list(range(40, 49))]
    whole = model.generate_with_scores(prompts, max_new_tokens=5, log_probs=True)
    monkeypatch.setattr(prefill, "CHUNK", 4)
    monkeypatch.setattr(prefill, "CAPACITY", 2)  # a cache grows between chunks
    chunked = model.generate_with_scores(prompts, max_new_tokens=5, log_probs=True)
    for one, other in zip(whole, chunked, strict=True):
        assert one.tokens == other.tokens
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-5)


@pytest.mark.parametrize(("most", "chunks"), [(22, [8, 8, 6]), (21, [4, 4, 4, 4, 4, 2])])
def test_longer_prompts_are_read_in_smaller_chunks(most, chunks, model_of, monkeypatch):
    model, read = model_of("gpt2", "static"), []
    step = StaticCache.step

    def watched(self, input_ids, counts, *rest):
        read.append(input_ids.shape[1])
        return step(self, input_ids, counts, *rest)

    monkeypatch.setattr(StaticCache, "step", watched)
    monkeypatch.setattr(prefill, "CHUNK", 8)
    monkeypatch.setattr(prefill, "LONG", most)
    model.generate_ids([list(range(22))], max_new_tokens=1)
    assert read[: len(chunks)] == chunks


def test_a_prompt_is_read_over_no_more_slots_than_it_has_filled(model_of, monkeypatch):
    """The time of attention depends on the number of slots, filled or empty."""
    model, slots = model_of("gpt2", "static"), []
    step = StaticCache.step

    def watched(self, input_ids, counts, *rest):
        slots.append(self.capacity)
        return step(self, input_ids, counts, *rest)

    monkeypatch.setattr(StaticCache, "step", watched)
    monkeypatch.setattr(prefill, "CHUNK", 8)
    monkeypatch.setattr(prefill, "CAPACITY", 2)
    model.generate_ids([list(range(22))], max_new_tokens=15)
    assert slots[:3] == [10, 18, 24]
    assert set(slots[3:]) == {37}


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_scores_of_texts_equal_transformers(cache, model_of, checkpoint_of):
    model, theirs = model_of("gpt2", cache), original(checkpoint_of, "gpt2")
    texts = ["the cat sat", "a", "the dog lay on the rug and the cat sat on the mat"]
    for text, found in zip(texts, model.score(texts), strict=True):
        ids = torch.tensor([model.text.encode([text])[0].ids])
        with torch.no_grad():
            logs = theirs(ids).logits[0, :-1].log_softmax(dim=-1)
        expected = logs.gather(1, ids[0, 1:, None])[:, 0].tolist()
        assert found.tokens == ids[0, 1:].tolist()
        assert found.log_probs == pytest.approx(expected, abs=1e-5)
        assert found.total == pytest.approx(sum(expected), abs=1e-4)


def test_scores_of_answers_equal_transformers(model_of, checkpoint_of):
    model, theirs = model_of("bart"), original(checkpoint_of, "bart")
    sources, targets = ["the cat sat on the mat", "a dog"], ["the cat", "the dog lay on the rug"]
    for source, target, found in zip(sources, targets, model.score(sources, targets), strict=True):
        ids, wanted = (torch.tensor([model.text.encode([text])[0].ids]) for text in (source, target))
        start = torch.tensor([[theirs.config.decoder_start_token_id]])
        with torch.no_grad():
            logits = theirs(input_ids=ids, decoder_input_ids=torch.cat([start, wanted[:, :-1]], 1)).logits
        expected = logits[0].log_softmax(dim=-1).gather(1, wanted[0, :, None])[:, 0].tolist()
        assert found.log_probs == pytest.approx(expected, abs=1e-5)


def test_pieces_of_a_stream_make_the_text(model_of):
    model = model_of("gpt2")
    text = model.generate("the cat", max_new_tokens=25)
    pieces = list(model.stream("the cat", max_new_tokens=25))
    assert "".join(pieces) == text
    assert len(pieces) > 3
    prompts = ["the cat", "a dog on the mat", "rug"]
    rows = ["", "", ""]
    for row, piece in model.stream_many(prompts, max_new_tokens=15):
        rows[row] += piece
    assert rows == model.generate(prompts, max_new_tokens=15)


def test_no_piece_splits_a_character(model_of):
    """Every byte of these characters is a token of its own."""
    text = model_of("gpt2").text
    pieces, tokens = Pieces(text), text.encode(["né 猫 🐈 x"])[0].ids
    found = [pieces.add(token) for token in tokens] + [pieces.rest()]
    assert "".join(found) == text.decode([tokens])[0] == "né 猫 🐈 x"
    assert not any("\ufffd" in piece for piece in found)
    assert len(tokens) > 10


def test_a_broken_character_comes_out_in_the_end(model_of):
    text = model_of("gpt2").text
    pieces, tokens = Pieces(text), text.encode(["猫"])[0].ids
    assert [pieces.add(token) for token in tokens[:-1]] == ["", ""]
    assert pieces.rest() == text.decode([tokens[:-1]])[0]


def test_a_stop_string_ends_a_row(model_of):
    model = model_of("gpt2")
    text = model.generate("the cat", max_new_tokens=30)
    stop = text[7:9]
    found = model.generate("the cat", max_new_tokens=30, stop_strings=[stop])
    assert text.startswith(found)
    assert stop in found
    assert len(found) < len(text)
    assert stop not in found[:-4]


def test_an_applications_own_rule_changes_the_scores(model_of):
    model, seen = model_of("gpt2"), []

    def only_even(rows, scores):
        seen.append([len(row) for row in rows])
        return np.where(np.arange(scores.shape[1]) % 2 == 0, scores, -np.inf)

    found = model.generate_ids(PROMPTS, max_new_tokens=4, eos_token_id=None, logits_processor=only_even)
    assert all(token % 2 == 0 for row in found for token in row)
    assert seen[0] == [3, 1, 5, 2]
    assert len(seen) == 4


def test_texts_for_several_sequences_are_grouped(model_of):
    model = model_of("gpt2")
    options = {"num_beams": 3, "num_return_sequences": 2, "max_new_tokens": 5}
    one = model.generate("the cat", **options)
    assert len(one) == 2
    assert model.generate(["the cat", "a dog"], **options)[0] == one


def test_checkpoints_own_settings_are_honoured(model_of):
    model = model_of("gpt2")
    expected = model.generate_ids(PROMPTS, num_beams=3, max_new_tokens=9)
    model.bundle.files.generation_config = dataclasses.replace(
        model.generation_config, num_beams=3, max_new_tokens=9
    )
    assert model.generate_ids(PROMPTS) == expected
    assert model.generate_ids(PROMPTS, num_beams=1) != expected


def test_a_temperature_of_0_is_greedy_whatever_the_checkpoint_says(model_of):
    """Of this call alone, and without a warning."""
    model = model_of("gpt2")
    expected = model.generate_ids(PROMPTS, do_sample=False, max_new_tokens=9)
    config = dataclasses.replace(model.generation_config, do_sample=True, temperature=1.5)
    model.bundle.files.generation_config = config
    assert model.generate_ids(PROMPTS, temperature=0, max_new_tokens=9) == expected
    assert model.generate_ids(PROMPTS, seed=3, max_new_tokens=9) != expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_beam": 3}, "no option 'num_beam'; did you mean num_beams"),
        ({"temperature": 0.0, "do_sample": True}, "temperature"),
        ({"max_new_tokens": 100}, "exceed the model's 40"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"num_return_sequences": 2}, "num_return_sequences"),
    ],
)
def test_an_option_that_cannot_be_is_one_line(options, said, model_of):
    with pytest.raises(InputError, match=said) as caught:
        model_of("gpt2").generate_ids(PROMPTS, **options)
    assert "\n" not in str(caught.value)


def test_a_stop_string_may_be_a_special_token_or_begin_in_the_prompt(model_of):
    model = model_of("gpt2")
    mask = model.text.tokenizer.token_to_id("<mask>")

    def then(token):
        return lambda rows, scores: np.where(np.arange(scores.shape[1]) == token, 9.0, 0 * scores)

    found = model.generate_ids(
        [[5, 6]], max_new_tokens=9, stop_strings=["<mask>"], logits_processor=then(mask)
    )
    assert found == [[mask]]
    ids = model.text.encode(["the cat"])[0].ids
    ends = model.text.encode(["s"])[0].ids
    found = model.generate_ids([ids], max_new_tokens=9, stop_strings=["cats"], logits_processor=then(ends[0]))
    assert found == [ends]


@pytest.mark.parametrize(("prompt", "stop", "count"), [("cat--", "--", 1), ("cat--", "cat--", 9)])
def test_a_stop_string_may_overlap_one_that_the_prompt_ends_with(prompt, stop, count, model_of):
    """As in transformers, what ends in a new token stops it, and what stood there before does not."""
    model = model_of("gpt2")
    [ids, [dash]] = [encoded.ids for encoded in model.text.encode([prompt, "-"])]
    found = model.generate_ids(
        [ids],
        max_new_tokens=9,
        stop_strings=[stop],
        logits_processor=lambda rows, scores: np.where(np.arange(scores.shape[1]) == dash, 9.0, 0 * scores),
    )
    assert found == [[dash] * count]


def test_a_stop_string_of_many_bytes_is_seen(model_of):
    """Every character of it is four tokens."""
    model = model_of("gpt2")
    tokens = model.text.encode(["🙂🙂🙂🙂🙂"])[0].ids

    def spell(rows, scores):
        return np.where(np.arange(scores.shape[1]) == tokens[len(rows[0]) - 2], 9.0, 0 * scores)

    found = model.generate_ids([[5, 6]], max_new_tokens=20, stop_strings=["🙂🙂🙂🙂"], logits_processor=spell)
    assert found == [tokens[:16]]


def test_what_cannot_be_scored_or_streamed_is_one_line(model_of, bundle_of):
    with pytest.raises(InputError, match="2 texts and 1 target, expected one each"):
        model_of("bart").score(["the cat", "a dog"], ["the"])
    assert model_of("bart").score([], []) == []
    with pytest.raises(InputError, match="scores no texts"):
        load(bundle_of("whisper", "static"), device="cpu").score(["the cat"])
    with pytest.raises(InputError, match="num_return_sequences must be 1"):
        list(model_of("gpt2").stream("the cat", num_return_sequences=2, do_sample=True))
