"""A prefix store saves prefill and changes no token."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.rows import DECODERS

import txexport
from txexport.errors import InputError
from txexport.runtime.generation.prefixes import PrefixStore

CACHES = ["static", "dynamic"]
WINDOWED = next(row for row in DECODERS if row.config.get("sliding_window") == 5)


@pytest.fixture
def model_of(bundle_of):
    """A function from a row or a model_type and a cache to its model."""
    return lambda what, cache="static": txexport.load(bundle_of(what, cache), device="cpu", threads=1)


def as_fresh(model, session, prompts, **options):
    """Holds what a session generates against the model's own, tokens and probabilities; the tokens."""
    given = {"max_new_tokens": 6, "log_probs": True, "eos_token_id": None} | options
    fresh = model.generate_with_scores(prompts, **given)
    for one, other in zip(session.generate_with_scores(prompts, **given), fresh, strict=True):
        assert one.tokens == other.tokens
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
    return [result.tokens for result in fresh]


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("what", ["gpt2", "bloom", WINDOWED], ids=lambda what: getattr(what, "id", what))
def test_turns_of_a_conversation_read_what_is_new(what, cache, model_of, read):
    model = model_of(what, cache)
    session, text = model.session(), [5, 6, 7, 8, 9, 10, 11]
    for _ in range(3):
        [answer] = as_fresh(model, session, [text])
        text = [*text, *answer, 20, 21]
    read.clear()
    session.generate_ids([text], max_new_tokens=1)
    assert read == [3]  # the answer's last token, which nothing has read yet, and the two after it


@pytest.mark.parametrize("cache", CACHES)
def test_rows_that_begin_alike_share_what_they_begin_with(cache, model_of, read):
    """Rows of a batch that have more or less of it, or nothing, and ends that come at different times."""
    model = model_of("gpt2", cache)
    session, head = model.session(), [30, 31, 32, 33, 34, 35]
    as_fresh(model, session, [head])
    prompts = [[*head, 40], [*head[:3], 50, 51], [60], head, [*head, 41, 42]]
    end = model.generate_ids(prompts, max_new_tokens=8, eos_token_id=None)[0][3]
    as_fresh(model, session, prompts, eos_token_id=end, max_new_tokens=8)
    read.clear()
    session.generate_ids([[*head, 70]], max_new_tokens=1)
    assert read == [1]
    as_fresh(model, session, prompts, prompt_lookup_num_tokens=3)
    as_fresh(model, session, prompts, do_sample=True, seed=3)
    beams = {"num_beams": 3, "max_new_tokens": 5}
    assert session.generate_ids([[80, 81, 82]], **beams) == model.generate_ids([[80, 81, 82]], **beams)
    read.clear()
    assert session.generate_ids([[80, 81, 82]], **beams) == model.generate_ids([[80, 81, 82]], **beams)
    assert read[0] == 1


def test_texts_and_streams_take_the_store_too(model_of, read):
    model = model_of("gpt2")
    session = model.session()
    text = session.generate("the cat sat on", max_new_tokens=5)
    assert text == model.generate("the cat sat on", max_new_tokens=5)
    read.clear()
    assert "".join(session.stream("the cat sat on", max_new_tokens=5)) == text
    assert read[0] == 1
    read.clear()
    assert "".join(piece for _, piece in session.stream_many(["the cat sat on"], max_new_tokens=5)) == text
    assert read[0] == 1


def test_a_prefix_beside_a_long_prompt_stays_within_the_models_limit(model_of):
    """Padding of a row that is nearly full would be beyond the last position."""
    model = model_of("gpt2")
    limit, session = model.manifest.limits["decoder"], model.session()
    full = [5, 6, 7] * (limit // 3)
    session.generate_ids([full[: limit - 3]], max_new_tokens=1)
    as_fresh(model, session, [full[: limit - 2], list(range(20, 40))], max_new_tokens=2)


def filled(store, bundle, *rows):
    for row in rows:
        store.keep(bundle, row, {"k": np.zeros((2, len(row), 4), np.float32)})


def test_what_was_not_used_for_longest_leaves_under_a_budget():
    store, bundle = PrefixStore(10), SimpleNamespace(keeps_states=False, crosses_images=False)
    filled(store, bundle, [1, 2, 3, 4], [5, 6, 7, 8])
    assert store.longest(bundle, [1, 2, 9])[0] == 2
    filled(store, bundle, [9, 9, 9])
    assert [store.longest(bundle, row)[0] for row in ([5, 6, 7], [1, 2, 3, 4])] == [0, 3]
    filled(store, bundle, [3] * 11)  # more than there is room for
    assert len(store) == 7


def test_a_budget_of_bytes_holds_beside_that_of_tokens():
    store, bundle = (
        PrefixStore(1000, max_bytes=320),
        SimpleNamespace(keeps_states=False, crosses_images=False),
    )
    filled(store, bundle, [1] * 6, [2] * 4)
    assert (len(store), store.nbytes) == (10, 320)
    filled(store, bundle, [3])
    assert (len(store), store.nbytes) == (5, 160)
    store.clear()
    assert (len(store), store.nbytes) == (0, 0)


def test_nothing_is_kept_twice():
    store, bundle = PrefixStore(), SimpleNamespace(keeps_states=False, crosses_images=False)
    filled(store, bundle, [1, 2], [1, 2, 3], [1, 2, 3], [1], [1, 2, 4])
    assert len(store) == 6
    assert store.longest(bundle, [1, 2, 3])[0] == 2  # the last token's logits are wanted
    assert (
        store.longest(SimpleNamespace(keeps_states=False, crosses_images=False), [1, 2, 3])[0] == 0
    )  # another model's numbers


def test_threads_share_a_store(model_of):
    model = model_of("gpt2")
    session = model.session(40)
    rows = [[5, 6, 7, number % 3, number] for number in range(12)]
    expected = [model.generate_ids([row], max_new_tokens=4)[0] for row in rows]
    found: dict[int, list] = {}

    def ask(mine):
        for number in mine:
            found[number] = session.generate_ids([rows[number]], max_new_tokens=4)[0]

    threads = [threading.Thread(target=ask, args=(range(first, 12, 3),)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(12)] == expected
    assert len(session.store) <= 40


def test_what_cannot_be_is_one_line(model_of):
    with pytest.raises(
        InputError, match=r"^prefix_store needs a decoder-only model, and <bart .* has an encoder"
    ):
        model_of("bart").session()
    with pytest.raises(InputError, match=r"^max_tokens is 0, expected a whole number of at least 1$"):
        model_of("gpt2").session(0)
    with pytest.raises(InputError, match=r"^prefix_store is a dict, expected a txexport.PrefixStore$"):
        model_of("gpt2").generate_ids([[5]], prefix_store={})
