"""Beams whose scores overflow, or that nothing can end, come out as transformers' and print nothing."""

import random
import warnings

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, OPTConfig, OPTForCausalLM

from txexport.errors import InputError, counted
from txexport.exporter import export
from txexport.runtime import load

SIZES = {"vocab_size": 53, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 4}
ENDS = {"bos_token_id": None, "eos_token_id": 2, "pad_token_id": 0}
MODELS = {
    "llama": (
        LlamaForCausalLM,
        LlamaConfig(**SIZES, **ENDS, intermediate_size=40, max_position_embeddings=16),
    ),
    "gpt2": (
        GPT2LMHeadModel,
        GPT2Config(**ENDS, vocab_size=53, n_positions=16, n_embd=24, n_layer=2, n_head=4),
    ),
    "opt": (
        OPTForCausalLM,
        OPTConfig(**SIZES, **ENDS, ffn_dim=40, max_position_embeddings=16, word_embed_proj_dim=24),
    ),
}
PROMPT = [5, 6, 7]


@pytest.fixture(scope="module")
def pair_of(tmp_path_factory):
    """A function from a model's name to it and to transformers', seeded."""
    made = {}

    def get(name: str, cache: str = "static"):
        if (name, cache) not in made:
            model_class, config = MODELS[name]
            torch.manual_seed(0)
            model = model_class(config).eval()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.copy_(torch.randn(parameter.shape) * 0.25 + (parameter.ndim == 1))
            folder = tmp_path_factory.mktemp("pair") / "out"
            export(model, folder, only="native", cache=cache)
            made[name, cache] = load(folder, device="cpu", threads=1), model
        return made[name, cache]

    return get


def theirs(model, prompt: list[int], **options) -> list[list[int]]:
    """The new tokens of transformers, up to the end of each."""
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):
        rows = model.generate(torch.tensor([prompt]), do_sample=False, **options)[:, len(prompt) :].tolist()
    return [row[: row.index(2) + 1] if 2 in row else row for row in rows]


OVERFLOWING = [
    {"length_penalty": -1.0, "remove_invalid_values": True, "min_new_tokens": 6, "forced_eos_token_id": 2},
    {"length_penalty": -3.0, "remove_invalid_values": True, "suppress_tokens": list(range(3, 53))},
    {"length_penalty": 9.0, "remove_invalid_values": True, "min_new_tokens": 6, "forced_eos_token_id": 2},
    {"length_penalty": -2.0, "early_stopping": "never", "remove_invalid_values": True, "min_new_tokens": 9},
    {"length_penalty": -1.0, "sequence_bias": {(7,): -1e38, (8,): 50.0}, "repetition_penalty": 5.0},
]


@pytest.mark.parametrize("options", OVERFLOWING, ids=range(len(OVERFLOWING)))
def test_scores_overflow_without_a_word(options, pair_of):
    ours, model = pair_of("llama")
    options = options | {"num_beams": 4, "max_new_tokens": 3}
    with warnings.catch_warnings(action="error", category=RuntimeWarning):
        found = ours.generate_ids([PROMPT], **options)
    if "sequence_bias" in options:
        options |= {"sequence_bias": [[list(key), value] for key, value in options["sequence_bias"].items()]}
    assert found == theirs(model, PROMPT, **options)


IMPOSSIBLE = [
    {
        "max_new_tokens": 1,
        "min_new_tokens": 2,
        "forced_eos_token_id": 2,
        "suppress_tokens": list(range(3, 53)),
    },
    {"max_new_tokens": 1, "forced_eos_token_id": 2, "no_repeat_ngram_size": 2},
    {"max_new_tokens": 1, "forced_eos_token_id": 5, "remove_invalid_values": True, "length_penalty": -3.0},
]


@pytest.mark.parametrize("options", IMPOSSIBLE, ids=range(len(IMPOSSIBLE)))
def test_a_beam_that_nothing_but_its_end_is_left_to_ends(options, pair_of):
    """All beams but the first are impossible: each has the one token that is allowed, and is not empty."""
    ours, model = pair_of("llama")
    options = options | {"num_beams": 4, "num_return_sequences": 2}
    assert ours.generate_ids([PROMPT], **options) == theirs(model, PROMPT, **options)


CHOICES = {
    "length_penalty": [-1.0, -2.0, 0.0, 2.0, 0.5],
    "remove_invalid_values": [True],
    "min_new_tokens": [2, 6],
    "forced_eos_token_id": [2, 5],
    "early_stopping": [True, "never", False],
    "no_repeat_ngram_size": [1, 2],
    "bad_words_ids": [[[7], [8]]],
    "suppress_tokens": [list(range(10, 53))],
    "forced_bos_token_id": [2, 9],
    "repetition_penalty": [0.5, 3.0],
    "renormalize_logits": [True],
}


@pytest.mark.parametrize("seed", range(3))
def test_beams_of_any_settings_are_transformers(seed, pair_of):
    (ours, model), draw = pair_of("llama"), random.Random(seed)
    for _ in range(25):
        options = {"num_beams": draw.choice([2, 3, 4]), "max_new_tokens": draw.choice([1, 2, 3, 8])}
        options |= {name: draw.choice(some) for name, some in CHOICES.items() if draw.random() < 0.3}
        with warnings.catch_warnings(action="error", category=RuntimeWarning):
            found = ours.generate_ids([PROMPT], **options)
        assert found == theirs(model, PROMPT, **options), options


@pytest.mark.parametrize("cache", ["static", "dynamic"])
@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_as_long_as_the_limit_has_one_answer(name, cache, pair_of):
    ours, model = pair_of(name, cache)
    draw = random.Random(name)
    rows = [[draw.randrange(3, 53) for _ in range(length)] for length in (16, 5, 15, 16, 1)]
    for beams in (1, 3):
        options = {"max_new_tokens": 1, "num_beams": beams}
        expected = [theirs(model, row, **options)[0] for row in rows]
        assert ours.generate_ids(rows, **options) == expected
    [greedy] = ours.generate_ids(rows[:1])
    assert [greedy] == theirs(model, rows[0], max_new_tokens=1)
    assert ours.generate_ids(rows[:1], max_new_tokens=1, prompt_lookup_num_tokens=2) == [greedy]
    with pytest.raises(InputError, match="a prompt of 16 tokens and 2 new ones exceed the model's 16"):
        ours.generate_ids(rows[:1], max_new_tokens=2)
    with pytest.raises(InputError, match="a prompt of 17 tokens leaves no room in the model's 16"):
        ours.generate_ids([rows[0] + [5]], max_new_tokens=1)


def test_counts_are_words():
    assert counted(1, "token") == "1 token"
    assert counted(0, "text") == "0 texts"
    assert counted(1024, "new one") == "1,024 new ones"
