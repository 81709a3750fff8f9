"""Penalties, bans and forced tokens: the scores of transformers' processors, for rows of any lengths."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration, GPT2Config, GPT2LMHeadModel
from transformers.generation import logits_process as hf

from txexport.errors import InputError
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.generation.logits_processors import processors
from txexport.runtime.generation.penalties import Step

VOCAB = 40
ROWS = 12
EOS = [3, 7]
MAX = float(np.finfo(np.float32).max)


def scores_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 3, (ROWS, VOCAB)).astype(np.float32)


def step_of(seed: int) -> Step:
    """Rows of 1 to 12 tokens, of which 1 to all were given, of 5 words so that they repeat."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(1, 6, length).tolist() for length in range(1, ROWS + 1)]
    prompts = [int(rng.integers(1, len(row) + 1)) for row in rows]
    limits = [len(row) + int(rng.integers(1, 3)) for row in rows]
    return Step(rows, prompts, limits, origins=rng.permutation(ROWS))


def processed(settings: GenerationConfig, step: Step, scores: np.ndarray, sources=None) -> np.ndarray:
    for process in processors(settings, scores.shape[1], sources):
        before = scores.copy()
        after = process(step, scores)
        assert np.array_equal(before, scores, equal_nan=True), "changed what it was given"
        scores = after
    assert scores.dtype == np.float32
    return scores


def check(ours: np.ndarray, expected: np.ndarray) -> None:
    assert np.array_equal(np.isneginf(ours), np.isneginf(expected))
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


BIASES = {
    **{(9,): 2.5, (2,): -1.5, (1, 9): 3.0, (2, 9): -4.0, (5, 3): 1.0},
    **{(1, 2, 9): 5.0, (1, 2, 8): 0.5, (3, 3, 3): -math.inf, (4, 3, 2, 1): 7.0},
}
PAIRS = [[list(tokens), bias] for tokens, bias in BIASES.items()]
WORDS = [[11], [3], [1, 12], [2, 12], [4, 5, 13], [1, 2, 3, 14], [3, 3]]
# Options, and transformers' processor for one row: `at` has its prompt's length, its limit and its source.
CASES: list[tuple[dict, Callable]] = [
    ({"sequence_bias": BIASES}, lambda at: hf.SequenceBiasLogitsProcessor(PAIRS)),
    ({"sequence_bias": PAIRS}, lambda at: hf.SequenceBiasLogitsProcessor(BIASES)),
    ({"logit_bias": {5: 2, 3: -100}}, lambda at: hf.SequenceBiasLogitsProcessor({(5,): 2.0, (3,): -100.0})),
    ({"bad_words_ids": WORDS}, lambda at: hf.NoBadWordsLogitsProcessor(WORDS, EOS)),
    ({"repetition_penalty": 1.7}, lambda at: hf.RepetitionPenaltyLogitsProcessor(1.7)),
    ({"repetition_penalty": 0.6}, lambda at: hf.RepetitionPenaltyLogitsProcessor(0.6)),
    ({"no_repeat_ngram_size": 1}, lambda at: hf.NoRepeatNGramLogitsProcessor(1)),
    ({"no_repeat_ngram_size": 2}, lambda at: hf.NoRepeatNGramLogitsProcessor(2)),
    ({"no_repeat_ngram_size": 3}, lambda at: hf.NoRepeatNGramLogitsProcessor(3)),
    ({"no_repeat_ngram_size": 13}, lambda at: hf.NoRepeatNGramLogitsProcessor(13)),
    ({"encoder_no_repeat_ngram_size": 1}, lambda at: hf.EncoderNoRepeatNGramLogitsProcessor(1, at.source)),
    ({"encoder_no_repeat_ngram_size": 2}, lambda at: hf.EncoderNoRepeatNGramLogitsProcessor(2, at.source)),
    ({"encoder_no_repeat_ngram_size": 4}, lambda at: hf.EncoderNoRepeatNGramLogitsProcessor(4, at.source)),
    (
        {"encoder_repetition_penalty": 1.7},
        lambda at: hf.EncoderRepetitionPenaltyLogitsProcessor(1.7, at.source),
    ),
    ({"min_length": 6}, lambda at: hf.MinLengthLogitsProcessor(6, EOS)),
    ({"min_new_tokens": 3}, lambda at: hf.MinNewTokensLengthLogitsProcessor(at.prompt, 3, EOS)),
    (
        {"min_new_tokens": 3, "min_length": 99},
        lambda at: hf.MinNewTokensLengthLogitsProcessor(at.prompt, 3, EOS),
    ),
    ({"forced_bos_token_id": 4}, lambda at: hf.ForcedBOSTokenLogitsProcessor(4)),
    ({"forced_eos_token_id": [7, 3]}, lambda at: hf.ForcedEOSTokenLogitsProcessor(at.limit, [7, 3])),
    (
        {"exponential_decay_length_penalty": (2, 1.3)},
        lambda at: hf.ExponentialDecayLengthPenalty((2, 1.3), EOS, at.prompt),
    ),
    ({"suppress_tokens": [1, 9]}, lambda at: hf.SuppressTokensLogitsProcessor([1, 9])),
    (
        {"begin_suppress_tokens": [1, 9]},
        lambda at: hf.SuppressTokensAtBeginLogitsProcessor([1, 9], at.prompt),
    ),
    ({"renormalize_logits": True}, lambda at: hf.LogitNormalization()),
]


@pytest.mark.parametrize(("options", "theirs"), CASES, ids=[str(case[0])[:60] for case in CASES])
@pytest.mark.parametrize("seed", range(8))
def test_a_processor_is_that_of_transformers(options, theirs, seed):
    scores, step = scores_of(seed), step_of(seed)
    sources = [row[::-1] + row for row in step.rows]
    ours = processed(GenerationConfig().updated(eos_token_id=EOS, **options), step, scores, sources)
    for i, row in enumerate(step.rows):
        source = torch.tensor([sources[step.origins[i]]])
        at = SimpleNamespace(prompt=step.prompts[i], limit=step.limits[i], source=source)
        check(ours[i : i + 1], theirs(at)(torch.tensor([row]), torch.tensor(scores[i : i + 1])).numpy())


class CaughtError(Exception):
    """The list of processors that transformers made."""


def list_of(model, ids: list[int], **options):
    """The processors of model.generate, on the step where it would start."""

    def catch(**arguments):
        raise CaughtError(type(model)._get_logits_processor(model, **arguments))

    model._get_logits_processor = catch
    with pytest.raises(CaughtError) as caught:
        model.generate(torch.tensor([ids]), **options)
    return caught.value.args[0]


DRAWN = {
    "sequence_bias": PAIRS,
    "encoder_repetition_penalty": 1.4,
    "repetition_penalty": 1.3,
    "no_repeat_ngram_size": 2,
    "encoder_no_repeat_ngram_size": 3,
    "bad_words_ids": WORDS,
    "min_length": 7,
    "min_new_tokens": 2,
    "forced_bos_token_id": 4,
    "forced_eos_token_id": 7,
    "remove_invalid_values": True,
    "exponential_decay_length_penalty": (1, 1.2),
    "suppress_tokens": [8, 30],
    "begin_suppress_tokens": [1, 9],
    "temperature": 0.6,
    "top_h": 0.9,
    "top_k": 12,
    "top_p": 0.8,
    "min_p": 0.02,
    "typical_p": 0.9,
    "epsilon_cutoff": 0.03,
    "eta_cutoff": 0.3,
    "renormalize_logits": True,
    "num_beams": 3,
}


@pytest.fixture(scope="module")
def models():
    torch.manual_seed(0)
    size = {"vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": EOS, "pad_token_id": 0}
    gpt2 = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=1, n_positions=40, **size))
    widths = {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 8,
        "decoder_ffn_dim": 8,
        "d_model": 8,
    }
    bart = BartConfig(
        encoder_attention_heads=1, decoder_attention_heads=1, decoder_start_token_id=2, **widths, **size
    )
    bart.forced_eos_token_id = None
    return {"gpt2": gpt2, "bart": BartForConditionalGeneration(bart)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["gpt2", "bart"])
@pytest.mark.parametrize("seed", range(20))
def test_all_together_are_those_of_transformers(kind, seed, models):
    rng = np.random.default_rng(seed)
    options = {name: value for name, value in DRAWN.items() if rng.random() < 0.5}
    options |= {"do_sample": bool(seed % 4), "max_new_tokens": 6}
    if "exponential_decay_length_penalty" in options:
        options.pop("remove_invalid_values", None)  # see the test of a ban below
    scores, step = scores_of(seed), step_of(seed)
    if kind == "bart":
        step = Step(step.rows, [1] * ROWS, [7] * ROWS, step.origins)
        sources = [row[::-1] + row for row in step.rows]
    else:
        step = Step(step.rows, step.prompts, np.array(step.prompts) + 6, range(ROWS))
        sources = [row[:prompt] for row, prompt in zip(step.rows, step.prompts, strict=True)]
    ours = processed(GenerationConfig().updated(eos_token_id=EOS, **options), step, scores, sources)
    for i, row in enumerate(step.rows):
        theirs = list_of(models[kind], sources[step.origins[i]], **options)
        expected = theirs(torch.tensor([row]), torch.tensor(scores[i : i + 1])).numpy()
        check(bans(ours[i : i + 1]), bans(expected))


def bans(scores: np.ndarray) -> np.ndarray:
    """Scores with a ban that was made a number as -inf: equals among them are kept by chance."""
    return np.where(scores < -MAX / 2, -np.inf, scores)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("eos", [None, 3, EOS])
@pytest.mark.parametrize(
    "limit", [{"top_k": 1}, {"top_p": 0.001}, {"min_p": 1.0}, {"typical_p": 0.001}], ids=str
)
def test_sampled_beams_keep_more_tokens_than_can_end_them(eos, limit, models):
    options = {"top_k": 0} | limit | {"do_sample": True, "num_beams": 4, "eos_token_id": eos}
    scores, step = scores_of(1), step_of(1)
    ours = processed(GenerationConfig().updated(**options), step, scores)
    theirs = list_of(models["gpt2"], [1, 2], **options)
    check(ours, theirs(torch.ones((ROWS, 3), dtype=torch.int64), torch.tensor(scores)).numpy())
    assert (np.isfinite(ours).sum(axis=1) >= (3 if eos == EOS else 2)).all()


def test_min_new_tokens_stands_in_place_of_min_length():
    settings = GenerationConfig().updated(eos_token_id=EOS, min_new_tokens=0, min_length=99)
    assert processors(settings, VOCAB) == []


def test_plain_greedy_search_costs_nothing():
    settings = GenerationConfig(eos_token_id=(3,), max_new_tokens=9, temperature=0.5, top_p=0.5, num_beams=4)
    assert processors(settings, VOCAB, [[5]]) == []


def test_presence_and_frequency_count_new_tokens_alone():
    step = Step([[4, 4, 5, 6, 6, 6], [4]], prompts=[2, 1], limits=[9, 9], origins=[0, 1])
    settings = GenerationConfig().updated(presence_penalty=0.5, frequency_penalty=0.25)
    ours = processed(settings, step, np.ones((2, VOCAB), np.float32))
    expected = np.ones((2, VOCAB), np.float32)
    expected[0, 5], expected[0, 6] = 1 - 0.5 - 0.25, 1 - 0.5 - 0.75
    assert np.array_equal(ours, expected)


def test_rows_may_be_arrays():
    settings = GenerationConfig().updated(
        eos_token_id=EOS,
        repetition_penalty=1.5,
        no_repeat_ngram_size=2,
        bad_words_ids=WORDS,
        presence_penalty=1,
    )
    step, scores = step_of(0), scores_of(0)
    arrays = Step([np.array(row) for row in step.rows], step.prompts, step.limits, step.origins)
    assert np.array_equal(processed(settings, arrays, scores), processed(settings, step, scores))


def test_invalid_scores_are_made_numbers():
    scores = np.array([[math.nan, math.inf, -math.inf, 1.5]], np.float32)
    ours = processed(GenerationConfig(remove_invalid_values=True), Step([[1]], [1], [5], [0]), scores)
    assert ours.tolist() == [[0.0, MAX, -MAX, 1.5]]


def test_tokens_that_have_no_score():
    """A model may read more tokens than it writes; one cannot ask to write these."""
    step = Step([[1, VOCAB, VOCAB + 5, 1, VOCAB]], [1], [9], [0])
    options = {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2, "frequency_penalty": 1.0}
    unscored = {"eos_token_id": [3, VOCAB], "suppress_tokens": [VOCAB], "min_length": 9}
    settings = GenerationConfig().updated(**options, **unscored)
    ours = processed(settings, step, np.ones((1, VOCAB), np.float32), [[VOCAB, 2]])
    assert ours[0, :4].tolist() == pytest.approx([1.0, 1 / 1.5 - 1, 1.0, -math.inf])
    for asked in (
        {"sequence_bias": {(1, VOCAB): 1.0}},
        {"logit_bias": {VOCAB: 1.0}},
        {"bad_words_ids": [[VOCAB, 1]]},
        {"forced_bos_token_id": VOCAB},
        {"forced_eos_token_id": VOCAB},
    ):
        with pytest.raises(InputError, match=f"{next(iter(asked))} has token 40, expected 0 to 39"):
            processors(GenerationConfig().updated(**asked), VOCAB)


def test_sources_that_are_no_text_are_said():
    settings = GenerationConfig().updated(encoder_no_repeat_ngram_size=2, encoder_repetition_penalty=1.5)
    with pytest.warns(UserWarning, match="the encoder_ options change nothing: no tokens are encoded"):
        assert processors(settings, VOCAB) == []


def test_growing_reward_of_the_end_stays_a_number():
    settings = GenerationConfig().updated(eos_token_id=3, exponential_decay_length_penalty=(0, 2.0))
    step = Step([[1] * 5000], [1], [9000], [0])
    scores = np.full((1, VOCAB), -2.0, np.float32)
    ours = processed(settings, step, scores)
    assert np.isfinite(ours).all()
    assert ours.argmax() == 3


def test_a_ban_that_is_made_a_number_stays_a_ban():
    """Where transformers would reward it: the lowest number, raised by its own size, is above all others."""
    settings = GenerationConfig().updated(
        eos_token_id=EOS,
        min_new_tokens=9,
        remove_invalid_values=True,
        exponential_decay_length_penalty=(0, 3.0),
    )
    ours = processed(settings, Step([[1, 5, 5]], [1], [9], [0]), scores_of(0)[:1])
    assert ours[0, EOS].tolist() == [-MAX, -MAX]
