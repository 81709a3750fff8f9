"""Tokens that were proposed are those that the model would have chosen alone, or as likely."""

import numpy as np
import pytest
import tiny_checkpoint
from helpers.rows import DECODERS
from safetensors.numpy import load_file, save_file

import txexport
from txexport.errors import InputError
from txexport.exporter import export
from txexport.runtime.generation.drafts import Draft, PromptLookup
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache
from txexport.runtime.generation.sampling import softmax
from txexport.runtime.generation.speculation import Pace, accepted

CACHES = ["static", "dynamic"]
PROMPTS = [[5, 6, 7, 5, 6, 7, 5], [9], [20, 21, 22, 23, 24], [40, 41, 40, 41]]
LOOKUP = {"prompt_lookup_num_tokens": 4}


@pytest.fixture
def model_of(bundle_of):
    """A function from a row or a model_type and a cache to its model."""
    return lambda what, cache="static": txexport.load(bundle_of(what, cache), device="cpu", threads=1)


@pytest.fixture
def always(monkeypatch):
    """Propose at every step, whatever it costs."""
    monkeypatch.setattr(Pace, "proposes", property(lambda self: True))


@pytest.fixture
def steps(monkeypatch):
    """Counts the steps of several tokens, and those of one."""
    counts = {"several": 0, "one": 0}
    for kind in (StaticCache, DynamicCache):

        def read(self, input_ids, numbers, read=kind.read):
            counts["several"] += input_ids.shape[1] > 1
            return read(self, input_ids, numbers)

        def step(self, input_ids, numbers, *rest, step=kind.step):
            counts["one"] += input_ids.shape[1] == 1
            return step(self, input_ids, numbers, *rest)

        monkeypatch.setattr(kind, "read", read)
        monkeypatch.setattr(kind, "step", step)
    return counts


def prompts_of(seed: int, words: int = 300) -> list[list[int]]:
    """Ragged rows that repeat themselves, so that there is something to look up."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(5, words, rng.integers(1, 9)).tolist() for _ in range(3)]
    return [row * int(rng.integers(1, 4)) for row in rows]


LONGROPE = next(
    row for row in DECODERS if (row.config.get("rope_parameters") or {}).get("rope_type") == "longrope"
)
WINDOWED = next(row for row in DECODERS if row.config.get("sliding_window") == 5)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    "what",
    ["gpt2", "bloom", "t5", "bart", LONGROPE, WINDOWED],
    ids=lambda what: getattr(what, "id", what),
)
def test_looked_up_tokens_are_those_of_a_plain_search(what, cache, model_of, always, steps):
    model = model_of(what, cache)
    sets = [prompts_of(0), prompts_of(1), *([row] for row in prompts_of(2))]  # some caches want rows alike
    for prompts in sets:
        end = model.generate_ids(prompts, max_length=32, eos_token_id=None)[0][5]
        given = {"max_length": 32, "eos_token_id": end, "log_probs": True}
        plain = model.generate_with_scores(prompts, **given)
        found = model.generate_with_scores(prompts, **given, **LOOKUP)
        for one, other in zip(found, plain, strict=True):
            assert one.tokens == other.tokens
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
    assert steps["several"] > 0


def test_an_encoder_decoders_sources_are_looked_up(model_of, always, monkeypatch):
    """A translator or editor copies from what it reads, not from what it has written."""
    model, drafts = model_of("t5"), []
    propose = PromptLookup.propose

    def spied(*given):
        drafts.extend(propose(*given))
        return drafts[-1:]

    monkeypatch.setattr(PromptLookup, "propose", spied)
    model.generate_ids([[50, 51, 52, 53]], max_new_tokens=3, forced_bos_token_id=51, **LOOKUP)
    assert drafts[0] == Draft([52])  # and as many more as there is room for


def settled_by(model, prompts, **options):
    """Tokens with and without proposals."""
    plain = model.generate_ids(prompts, **options)
    return plain, model.generate_ids(prompts, **options, **LOOKUP)


@pytest.mark.parametrize("cache", CACHES)
def test_options_that_change_scores_hold_for_every_token(cache, model_of, always, steps):
    """Also those that count tokens, and a rule of one's own, which sees no token that is not kept."""
    model, seen = model_of("gpt2", cache), []

    def rule(rows, scores):
        seen.extend(map(tuple, rows))
        return np.where(np.arange(scores.shape[1]) % 3 == 0, -np.inf, scores).astype(np.float32)

    for options in (
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 3, "min_new_tokens": 9},
        {"forced_eos_token_id": 3, "exponential_decay_length_penalty": (2, 1.2)},
        {"logits_processor": rule},
        {"do_sample": True, "seed": 3, "temperature": 0.3, "num_return_sequences": 2},
    ):
        seen.clear()
        plain, found = settled_by(model, PROMPTS, max_new_tokens=16, **options)
        assert found == plain
        texts = [[*prompt, *row] for prompt, row in zip(PROMPTS, found, strict=False)]
        assert all(any(list(row) == text[: len(row)] for text in texts) for row in seen)
    assert steps["several"] > 10


def test_stop_strings_end_a_text_where_they_end_a_plain_one(model_of, always):
    model = model_of("gpt2")
    text = model.generate("the cat sat on the cat sat", max_new_tokens=20)
    stop = text[len(text) // 2 :][:3]
    given = {"max_new_tokens": 20, "stop_strings": [stop]}
    plain = model.generate("the cat sat on the cat sat", **given)
    assert stop in plain
    assert model.generate("the cat sat on the cat sat", **given, **LOOKUP) == plain
    assert "".join(model.stream("the cat sat on the cat sat", **given, **LOOKUP)) == plain


@pytest.mark.parametrize("cache", CACHES)
def test_a_row_up_to_the_models_limit_stands_beside_others(cache, model_of, always):
    model = model_of("gpt2", cache)
    limit = model.manifest.limits["decoder"]
    prompts = [[5, 6] * (limit // 2 - 2), [7, 8] * 5, [9]]
    given = {"max_length": limit, "eos_token_id": None}
    plain = model.generate_ids(prompts, **given)
    assert [len(prompt) + len(row) for prompt, row in zip(prompts, plain, strict=True)] == [limit] * 3
    assert model.generate_ids(prompts, **given, **LOOKUP) == plain


@pytest.fixture
def near_ties(tmp_path, checkpoint_of):
    """A function from a kind of cache to a model whose tokens have twins, as likely but for rounding."""
    checkpoint = tmp_path / "twins"
    tiny_checkpoint.save(checkpoint, "gpt2", "GPT2LMHeadModel", tie_word_embeddings=False)
    weights = load_file(checkpoint / "model.safetensors")
    head = weights["lm_head.weight"]
    head[150:300] = head[:150] * np.float32(1 + 2**-23)
    save_file(weights, checkpoint / "model.safetensors", {"format": "pt"})

    def get(cache: str):
        export(checkpoint, tmp_path / cache, cache=cache, only="native")
        return txexport.load(tmp_path / cache, device="cpu", threads=1)

    return get


@pytest.mark.parametrize("cache", CACHES)
def test_near_ties_fall_as_in_a_plain_search(cache, near_ties, always, steps):
    """A step of several tokens rounds otherwise than one of a single token."""
    model = near_ties(cache)
    for seed in range(4):
        for prompt in prompts_of(seed):
            plain, found = settled_by(model, [prompt], max_length=36, eos_token_id=None)
            assert found == plain
    assert steps["several"] > 30


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("model_type", ["gpt2", "bart"])
def test_tokens_with_an_assistant_are_those_without(model_type, cache, model_of, tmp_path, always, steps):
    """Whoever assists: the model itself, which is always right, or one of other weights, which is not."""
    model = model_of(model_type, cache)
    other = tmp_path / "other"
    tiny_checkpoint.save(other, model_type, tiny_checkpoint.FAMILIES[model_type][0], seed=1)
    export(other, tmp_path / "bundle", only="native")
    stranger = txexport.load(tmp_path / "bundle", device="cpu", threads=1)
    for prompts in (PROMPTS, PROMPTS[:1]):
        plain = model.generate_ids(prompts, max_length=30, repetition_penalty=1.2)
        for assistant in (model, stranger):
            for schedule in ("constant", "heuristic"):
                given = {"num_assistant_tokens": 3, "num_assistant_tokens_schedule": schedule}
                given |= {"assistant_confidence_threshold": 0.0, "repetition_penalty": 1.2, "max_length": 30}
                assert model.generate_ids(prompts, assistant_model=assistant, **given) == plain
    assert steps["several"] > 10


def test_what_an_assistant_cannot_read_goes_without_it(tmp_path):
    """Its longest sequence is shorter: of the prompts one is as long, one longer."""
    models = []
    for limit in (80, 40):
        tiny_checkpoint.save(tmp_path / f"{limit}", "gpt2", "GPT2LMHeadModel", n_positions=limit)
        export(tmp_path / f"{limit}", tmp_path / f"out{limit}", only="native")
        models.append(txexport.load(tmp_path / f"out{limit}", device="cpu"))
    model, assistant = models
    for length in (40, 41):
        prompts = [[*range(5, 5 + length)], [7, 8]]
        plain = model.generate_ids(prompts, max_new_tokens=9, eos_token_id=None)
        found = model.generate_ids(prompts, max_new_tokens=9, eos_token_id=None, assistant_model=assistant)
        assert found == plain


def test_an_assistant_that_is_right_saves_steps(model_of, always, steps):
    model, given = model_of("gpt2"), {"max_new_tokens": 21, "eos_token_id": None}
    model.generate_ids([[5, 6, 7]], **given)
    before = steps["one"]
    own = {"assistant_model": model, "num_assistant_tokens": 4, "assistant_confidence_threshold": 0.0}
    model.generate_ids([[5, 6, 7]], **given, **own)
    assert (before, steps["several"]) == (20, 4)  # 5 tokens each, after the prompt's


def test_drawn_tokens_are_as_likely_as_the_model_finds_them():
    """30,000 draws of q, kept or replaced: within 5 standard deviations of p, each token."""
    rng, count = np.random.default_rng(5), 30_000
    scores = np.array([[2.0, 1.0, 0.0, -np.inf, 1.5, -2.0]], np.float32)
    p, q = softmax(scores)[0], np.array([0.05, 0.45, 0.05, 0.2, 0.15, 0.1], np.float32)
    drawn = rng.choice(len(q), size=count, p=q.astype(np.float64) / q.sum(dtype=np.float64))
    kept = [accepted(scores, token, q, rng) for token in drawn.tolist()]
    found = np.bincount(kept, minlength=len(q)) / count
    assert (np.abs(found - p) <= 5 * np.sqrt(p * (1 - p) / count)).all()


def test_samples_with_an_assistant_follow_the_models_distribution(model_of, always, tmp_path):
    """The third token of 4,000 texts: as often as without, within 5 standard deviations of the difference."""
    model, count = model_of("gpt2"), 4000
    tiny_checkpoint.save(tmp_path / "other", "gpt2", "GPT2LMHeadModel", seed=1)
    export(tmp_path / "other", tmp_path / "bundle", only="native")
    stranger = txexport.load(tmp_path / "bundle", device="cpu", threads=1)
    given = {"do_sample": True, "top_k": 3, "max_new_tokens": 3, "num_return_sequences": count, "seed": 2}
    given |= {"batch_tokens": 10**6, "temperature": 0.7}
    third = [
        np.bincount([row[2] for row in model.generate_ids([[5, 6]], **given, **more)], minlength=320) / count
        for more in ({}, {"assistant_model": stranger, "num_assistant_tokens": 2})
    ]
    share = (third[0] + third[1]) / 2
    assert (np.abs(third[0] - third[1]) <= 5 * np.sqrt(2 * share * (1 - share) / count)).all()
    assert (share > 0.02).sum() > 4


def test_a_seed_repeats_what_an_assistant_draws(model_of):
    model = model_of("gpt2")
    given = {"do_sample": True, "max_new_tokens": 25, "seed": 3, "assistant_model": model}
    assert model.generate_ids(PROMPTS, **given) == model.generate_ids(PROMPTS, **given)


def test_proposals_pause_as_long_as_they_cost_too_much():
    """Steps of 1 second, or 1.5 where proposals come to nothing: at most a 32nd more time."""
    pace, spent = Pace(), 0.0
    for _ in range(1000):
        proposes = pace.proposes
        cost = 1.5 if proposes else 1.0
        pace.took(cost, 1.0, proposes)
        spent += cost
    assert 1000 < spent <= 1000 * (1 + 1 / 32) + 0.5


def test_proposals_that_pay_go_on():
    pace, proposed = Pace(), 0
    for _ in range(1000):
        proposes = pace.proposes
        pace.took(1.5 if proposes else 1.0, 3.0 if proposes else 1.0, proposes)
        proposed += proposes
    assert proposed > 970


@pytest.mark.parametrize(
    ("text", "new", "draft"),
    [
        ([5, 6, 7, 8, 5], [6], [7, 8, 5]),
        ([5, 6, 9, 6, 7, 5], [6], [9, 6, 7]),  # two tokens alike go before one
        ([5, 6, 9, 6, 7, 8], [6], [7, 8]),  # the last place goes before others; of one token two are copied
        ([6, 5, 6, 7, 8, 9, 6, 5], [6], [7, 8, 9]),  # and of two no more than are asked for
        ([5, 5], [5], [5, 5, 5]),  # what repeats goes on
        ([5, 6, 2, 7, 5], [6], [2]),  # nothing follows an end
        ([5, 6, 7], [8], []),
    ],
)
def test_what_followed_before_is_proposed(text, new, draft):
    lookup = PromptLookup([text], 3, 2, frozenset({2}))
    assert lookup.propose([0], [new], [9]) == [Draft(draft)]
    assert lookup.propose([0], [new], [1]) == [Draft(draft[:1])]


BAD = [
    ({"assistant_model": "gpt2"}, "assistant_model is a str, expected a Model that txexport.load made"),
    ({**LOOKUP, "num_beams": 2}, "num_beams is 2, expected 1 with prompt_lookup_num_tokens"),
    (
        {"max_new_tokens": 10**20},
        "max_new_tokens is 100000000000000000000, expected a whole number of at least 1, below 2^63",
    ),
    ({"prompt_lookup_num_tokens": 0}, "prompt_lookup_num_tokens is 0, expected a whole number of at least 1"),
    (
        LOOKUP | {"max_matching_ngram_size": 65},
        "max_matching_ngram_size is 65, expected a whole number from 1 to 64",
    ),
    (
        {"num_assistant_tokens_schedule": "fast"},
        "num_assistant_tokens_schedule is 'fast', expected 'constant', 'heuristic' or 'heuristic_transient'",
    ),
]


@pytest.mark.parametrize(("given", "said"), BAD, ids=[row[1][:30] for row in BAD])
def test_what_cannot_be_is_one_line(given, said, model_of):
    with pytest.raises(InputError) as caught:
        model_of("gpt2").generate_ids([[5]], **given)
    assert str(caught.value) == said


def test_assistants_that_cannot_be(model_of):
    model = model_of("gpt2")
    for given, said in (
        ({"assistant_model": model_of("bart")}, "expected one that reads texts as"),
        ({"assistant_model": model, "num_beams": 2}, "num_beams is 2, expected 1 with assistant_model"),
        ({"assistant_model": model, **LOOKUP}, "prompt_lookup_num_tokens is given, expected none with"),
        ({"assistant_model": model_of("bert", None)}, "the bundle is for feature-extraction"),
    ):
        with pytest.raises(InputError, match=said):
            model.generate_ids([[5]], **given)
