"""Models with states: each row equals transformers' output for it alone, whatever else is in the batch."""

import random
from types import SimpleNamespace

import numpy as np
import openai
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers
from helpers.serving import running

import txexport
from txexport.errors import InputError
from txexport.exporter import export
from txexport.families import WITHOUT_CACHE
from txexport.runtime.generation import prefill, running_batch, scheduler, scoring
from txexport.runtime.generation.prefixes import PrefixStore
from txexport.runtime.generation.requests import request_of
from txexport.runtime.generation.running_batch import RunningBatch, rows_of

CACHES = ["static", "dynamic"]
FAMILIES = {
    "lfm2": {"conv_L_cache": 4, "conv_bias": True},
    "qwen3_next": {},
    "granitemoehybrid": {},
    "falcon_h1": {"lm_head_multiplier": 0.2},
    "zamba2": {"num_mem_blocks": 1},
    "mamba2": {"num_hidden_layers": 2},
    "mamba": {"state_size": 8},
    "kimi_linear": {},
    "recurrent_gemma": {},
    "rwkv": {},
}
# The numbers of a row's states, those of a token's keys and values, and the bytes of its new tokens' scores.
STATES = {
    "lfm2": 3 * 48 * 4,
    "qwen3_next": 2 * (80 * 4 + 4 * 10 * 10),
    "granitemoehybrid": 3 * (136 * 3 + 4 * 24 * 10),
    "falcon_h1": 2 * (100 * 3 + 4 * 15 * 10),
    "zamba2": 6 * (120 * 3 + 4 * 20 * 10),
    "mamba": 3 * 96 * (3 + 8),
    "mamba2": 2 * (136 * 3 + 6 * 16 * 10),
    "kimi_linear": 2 * (150 * 3 + 5 * 10 * 10),
    "recurrent_gemma": 3 * (60 * 3 + 60),
    "rwkv": 3 * 5 * 48,
}
KEYS = {
    **{"lfm2": 2 * 2 * 8, "qwen3_next": 2 * 2 * 12, "granitemoehybrid": 2 * 2 * 8, "falcon_h1": 2 * 4 * 8},
    **{"mamba": 0, "mamba2": 0, "kimi_linear": 18 + 7, "zamba2": 3 * 4 * 20},
    "recurrent_gemma": 2 * 2 * 8,
    "rwkv": 0,
}
COLUMNS = {
    "mamba": 3 * 96,
    "mamba2": 2 * 136,
    "rwkv": 3 * 2 * 48,
}  # of convolutions and last tokens, by which a token's size is counted where it has no keys
SCORES = 3612
PROMPTS = [[5, 6, 7], [9], list(range(20, 49)), [40, 41]]
END = {"eos_token_id": None}
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}assistant:"


@pytest.fixture(scope="module", params=FAMILIES)
def checkpoint(request, tmp_path_factory):
    folder, tokenizer = tmp_path_factory.mktemp(request.param), tiny_tokenizers.byte_level()
    config = FAMILIES[request.param] | {"vocab_size": len(tokenizer), "max_position_embeddings": 200}
    tiny_checkpoint.save(folder, request.param, **config)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module", params=CACHES)
def model(request, checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "out"
    export(checkpoint, folder, cache=request.param, only="native")
    return txexport.load(folder, device="cpu", threads=1)


@pytest.fixture(scope="module")
def original(checkpoint):
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    # Layers that keep what an earlier text left there, and steps that add the rows of a batch to each other.
    if model.config.model_type in (*WITHOUT_CACHE, "rwkv"):
        model.config.use_cache = model.generation_config.use_cache = False
    return model


def expected(original, prompt, **options):
    """New tokens of transformers for one prompt alone, one list for each returned sequence."""
    ids = torch.tensor([prompt])
    with torch.no_grad():
        rows = original.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=1, **options
        )
    return [row[len(prompt) :] for row in rows.tolist()]


def tokens_of_states(model):
    """The tokens whose keys and values take the memory of a row's states, those read and those written."""
    family = model.bundle.manifest.model_type
    return -(-2 * STATES[family] // (KEYS[family] or COLUMNS[family]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
        {"num_beams": 3},
        {"num_beams": 5, "num_return_sequences": 3, "length_penalty": 1.7, "early_stopping": True},
    ],
    ids=str,
)
def test_ragged_prompts_equal_transformers(options, model, original):
    options = options | END | {"max_new_tokens": 15}
    rows = [row for prompt in PROMPTS for row in expected(original, prompt, **options)]
    assert model.generate_ids(PROMPTS, **options) == rows
    assert len({tuple(row) for row in rows}) == len(rows)


def test_group_beam_search_of_ragged_prompts(model, original):
    """With a tiny penalty, groups equal beams of three; with a large one, rows equal each row alone."""
    options = {"max_new_tokens": 12, "num_beams": 6, "num_beam_groups": 2} | END
    beams = [
        row for prompt in PROMPTS for row in expected(original, prompt, max_new_tokens=12, num_beams=3, **END)
    ]
    assert model.generate_ids(PROMPTS, diversity_penalty=1e-9, **options) == beams
    parted = options | {"diversity_penalty": 1.5, "num_return_sequences": 4}
    parted_alone = [row for prompt in PROMPTS for row in model.generate_ids([prompt], **parted)]
    assert model.generate_ids(PROMPTS, **parted) == parted_alone
    near = model.generate_ids(PROMPTS, diversity_penalty=1e-9, num_return_sequences=4, **options)
    assert parted_alone != near


def test_samples_are_those_of_the_originals_scores(model, original):
    """Probabilities of drawn tokens, for rows that end at different times."""
    options = {
        "do_sample": True,
        "seed": 4,
        "max_new_tokens": 20,
        "top_k": 0,
        "eos_token_id": [7, 30, 44, 90],
    }
    rows = model.generate_with_scores(PROMPTS * 3, log_probs=True, **options)
    assert len({len(row.tokens) for row in rows}) >= 3
    for prompt, row in zip(PROMPTS * 3, rows, strict=True):
        with torch.no_grad():
            logits = original(torch.tensor([[*prompt, *row.tokens]])).logits[0, len(prompt) - 1 : -1]
        chosen = logits.log_softmax(-1)[range(len(row.tokens)), row.tokens]
        np.testing.assert_allclose(row.log_probs, chosen.numpy(), atol=2e-5)


@pytest.mark.parametrize("pieces", [1, 6])
def test_scores_of_given_texts_are_those_of_the_original(pieces, model, original, monkeypatch):
    """All tokens at once, and a sixth of the longest row in each step."""
    request = request_of(model.bundle, PROMPTS, None, {})
    size = len(PROMPTS) * request.vocab_size * max(map(len, PROMPTS))
    monkeypatch.setattr(scoring, "SCORES_AT_ONCE", size // pieces)
    for prompt, scores in zip(PROMPTS, scoring.token_log_probs(request, PROMPTS), strict=True):
        with torch.no_grad():
            logits = original(torch.tensor([prompt])).logits[0, :-1]
        expected_scores = logits.log_softmax(-1)[range(len(prompt) - 1), prompt[1:]]
        np.testing.assert_allclose(scores, expected_scores.numpy(), atol=2e-5)


def test_prompts_in_pieces_equal_transformers(model, original, monkeypatch):
    """Rows whose prompts end in different pieces."""
    rows = [expected(original, prompt, max_new_tokens=9, **END)[0] for prompt in PROMPTS]
    monkeypatch.setattr(prefill, "CHUNK", 4)
    monkeypatch.setattr(prefill, "CAPACITY", 2)
    assert model.generate_ids(PROMPTS, max_new_tokens=9, **END) == rows


def test_a_prompt_longer_than_a_step_of_prefill(checkpoint, tmp_path):
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, max_position_embeddings=1300)
    model.save_pretrained(tmp_path / "checkpoint")
    prompts = [(np.arange(length) * 37 % 250 + 5).tolist() for length in (1100, 3, 520)]
    for cache in CACHES:
        export(tmp_path / "checkpoint", tmp_path / cache, cache=cache, only="native")
        ours = txexport.load(tmp_path / cache, device="cpu", threads=1)
        rows = [expected(model.eval(), prompt, max_new_tokens=5, **END)[0] for prompt in prompts]
        assert ours.generate_ids(prompts, max_new_tokens=5, **END) == rows


def test_rows_that_join_and_leave_equal_transformers(model, original, monkeypatch):
    """Prompts are read in pieces, and buffers grow and shrink."""
    monkeypatch.setattr(running_batch, "PROMPT_TOKENS", 12)
    rng, batch = random.Random(7), RunningBatch(model.bundle, 300 + 7 * tokens_of_states(model))
    jobs = [
        ([rng.randrange(5, 250) for _ in range(rng.choice([1, 2, 9, 20]))], rng.choice([1, 2, 7, 19]))
        for _ in range(16)
    ]
    rows = [
        rows_of(request_of(model.bundle, [prompt], None, {"max_new_tokens": count, **END}))[0]
        for prompt, count in jobs
    ]
    waiting, most = list(rows), 0
    while waiting or batch.busy:
        for _ in range(min(len(waiting), rng.choice([0, 0, 1, 2]))):
            batch.add([waiting.pop(0)])
        batch.step()
        most = max(most, len(batch.running))
    assert most >= 4
    assert [row.error for row in rows] == [None] * len(rows)
    assert [row.result.tokens for row in rows] == [
        expected(original, prompt, max_new_tokens=count, **END)[0] for prompt, count in jobs
    ]


def test_a_row_that_was_cancelled_leaves_the_others_their_states(model, original):
    rows = [
        rows_of(request_of(model.bundle, [prompt], None, {"max_new_tokens": 12, **END}))[0]
        for prompt in PROMPTS
    ]
    batch = RunningBatch(model.bundle)
    batch.add(rows)
    for _ in range(4):
        batch.step()
    rows[0].cancelled = True
    while batch.busy:
        batch.step()
    for prompt, row in zip(PROMPTS[1:], rows[1:], strict=True):
        assert [row.result.tokens] == expected(original, prompt, max_new_tokens=12, **END)


def test_num_return_sequences_in_a_running_batch(model):
    options = {"do_sample": True, "seed": 5, "num_return_sequences": 3, "max_new_tokens": 8}
    rows, batch = rows_of(request_of(model.bundle, PROMPTS[:2], None, options)), RunningBatch(model.bundle)
    batch.add(rows)
    while batch.busy:
        batch.step()
    tokens = [row.result.tokens for row in rows]
    assert len(set(map(tuple, tokens))) == len(tokens)
    assert tokens == model.generate_ids(PROMPTS[:2], **options)


def test_a_session_reuses_whole_sequences_and_replays_others(model, original, read):
    session, text = model.session(), [5, 6, 7, 8, 9, 10, 11]
    options = {"max_new_tokens": 6, **END}
    for turn in range(3):
        read.clear()
        [answer] = session.generate_ids([text], **options)
        assert [answer] == expected(original, text, **options)
        assert read[0] == (len(text) if turn == 0 else 3)  # the answer's last token, and what follows it
        text = [*text, *answer, 20, 21]
    for other in ([5, 6, 7, 8], [5, 6, 7, 99, *text]):  # parts of what is stored, and no more
        read.clear()
        assert session.generate_ids([other], **options) == expected(original, other, **options)
        assert read[0] == len(other)
    rows = [[*text, 30], [60], text[:5], [*text, 31, 32, 33]]
    session.generate_ids([text], max_new_tokens=1, **END)
    read.clear()
    assert session.generate_ids(rows, **options) == [expected(original, row, **options)[0] for row in rows]
    assert read[:4] == [1, 1, 5, 3]  # the longest sequence of each row that is stored to its end


def test_a_longer_sequence_leaves_a_shorter_one_in_the_store():
    """A conversation may go on from either."""
    store, bundle = PrefixStore(), SimpleNamespace(keeps_states=True, crosses_images=False)
    for row in ([1, 2], [1, 2, 3, 4]):
        store.keep(bundle, row, {"k": np.zeros((2, len(row), 4), np.float32), "conv": np.full(3, len(row))})
    assert len(store) == 6
    for row, length in ([1, 2, 9], 2), ([1, 2, 3, 9], 2), ([1, 2, 3, 4, 9], 4), ([1, 9], 0), ([1, 2], 0):
        size, arrays = store.longest(bundle, row)
        assert size == length
        assert not length or arrays["conv"][0] == length


def test_a_store_counts_states_as_tokens_of_their_size(model):
    """Short conversations with large states do not exceed the memory of as many tokens."""
    family = model.bundle.manifest.model_type
    keys, states = 4 * KEYS[family], 4 * STATES[family]
    token = keys or 4 * COLUMNS[family]
    size = 3 + -(-states // token)
    for most, entries in ((3 * size, 3), (3 * size - 1, 2), (size - 1, 0)):
        session = model.session(most)
        for number in range(5):
            session.generate_ids([[5, 6, 7 + number]], max_new_tokens=1)
        assert len(session.store) == 3 * entries
        assert session.store.nbytes <= most * token
        assert session.store.nbytes == entries * (3 * keys + states)


def test_running_rows_count_states_as_tokens_of_their_size(model):
    """Rows wait where the states of all would not fit, rather than fail while they run."""
    size = tokens_of_states(model) + 2
    rows, batch = (
        rows_of(request_of(model.bundle, [[5]] * 9, None, {"max_new_tokens": 1})),
        RunningBatch(model.bundle, 4 * size),
    )
    assert {row.cost for row in rows} == {size}
    batch.add(rows)
    done = 0
    while batch.busy:
        finished = [row for row in batch.step() if row.done]
        assert len(finished) <= 4
        done += len(finished)
    assert done == 9
    request = request_of(model.bundle, [[5]] * 9, None, {"max_new_tokens": 1, "num_beams": 2})
    assert scheduler.costs(request) == [2 * size] * 9


def test_a_store_counts_the_bytes_of_states(model):
    store = PrefixStore()
    model.generate_ids([[5, 6, 7]], max_new_tokens=1, prefix_store=store)
    family = model.bundle.manifest.model_type
    assert store.nbytes == 4 * (STATES[family] + 3 * KEYS[family])


def test_drafts_are_refused(model, bundle_of):
    family = model.bundle.manifest.model_type
    reason = (
        rf"is given, but <{family} .* has recurrent or convolution states, which cannot be rolled back "
        "when drafted tokens are rejected"
    )
    with pytest.raises(InputError, match=f"^prompt_lookup_num_tokens {reason}"):
        model.generate_ids([[5]], prompt_lookup_num_tokens=3)
    with pytest.raises(InputError, match=f"^assistant_model {reason}"):
        model.generate_ids([[5]], assistant_model=model)


def test_a_server_answers_as_transformers(checkpoint, tmp_path, original):
    """Turns of a conversation, beside others that are answered at the same time."""
    export(checkpoint, tmp_path / "out", only="native")
    tokenizer = transformers.AutoTokenizer.from_pretrained(checkpoint)
    with running({"model": tmp_path / "out"}) as (address, _):
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0)
        messages = [{"role": "user", "content": "the cat"}]
        for turn in ("sat", "on the mat", "and the dog"):
            ids = tokenizer.apply_chat_template(messages)["input_ids"]
            [row] = expected(original, ids, max_new_tokens=9)
            text = tokenizer.decode(row, skip_special_tokens=True)
            options = {"model": "model", "messages": messages, "max_tokens": 9, "temperature": 0}
            answer = client.chat.completions.create(**options)
            assert answer.choices[0].message.content == text
            pieces = client.chat.completions.create(stream=True, **options)
            assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == text
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": turn}]


def test_a_cache_whose_states_do_not_fit_is_refused(model, monkeypatch):
    """A step reads one set of states and writes another one."""
    family = model.bundle.manifest.model_type
    row = SCORES + 4 * (2 * STATES[family] + 2 * KEYS[family])
    monkeypatch.setattr("txexport.runtime.memory.total", lambda: 20 * row)
    with pytest.raises(InputError, match="a cache of 21 rows of 2 tokens would take"):
        model.generate_ids([[5]] * 21, max_new_tokens=1)
    assert len(model.generate_ids([[5]] * 20, max_new_tokens=1)) == 20
