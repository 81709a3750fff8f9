"""Prompts with equal token ids and different media never share keys, values or drafts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import txexport
from txexport.errors import InputError
from txexport.runtime.generation.drafts import Draft, PromptLookup
from txexport.runtime.generation.kv_cache import StaticCache
from txexport.runtime.generation.media import Medium, check_media, digest_of, hide
from txexport.runtime.generation.prefixes import FinishedRowRecorder, PrefixStore
from txexport.runtime.generation.requests import checked, encoded, request_of
from txexport.runtime.generation.running_batch import rows_of
from txexport.runtime.generation.search import Generated

IMAGE = np.arange(12, dtype=np.float32).reshape(3, 4)
CAT, DOG = digest_of(IMAGE), digest_of(IMAGE + 1)
PROMPT = [5, 6, 99, 99, 99, 7, 8, 9]  # 99 stands for an image


def store_of(bundle, tokens, media):
    store = PrefixStore()
    store.keep(bundle, tokens, {"k": np.zeros((2, len(tokens), 4), np.float32)}, media)
    return store


def test_a_digest_depends_on_elements_dtype_and_shape():
    others = [IMAGE + 1, IMAGE.astype(np.float64), IMAGE.view(np.int32), IMAGE.reshape(4, 3)]
    assert len({digest_of(array) for array in [IMAGE, *others]}) == 5
    assert digest_of(np.asfortranarray(IMAGE)) == CAT


@pytest.mark.parametrize(
    ("media", "length"),
    [
        ((Medium(2, 3, CAT),), 7),  # all but the last token
        ((Medium(2, 3, DOG),), 2),
        ((), 2),  # the same ids as text
        ((Medium(2, 2, CAT),), 2),
        ((Medium(2, 3, CAT), Medium(6, 1, DOG)), 6),
    ],
)
def test_prompts_share_their_prefix_up_to_the_first_medium_that_differs(media, length):
    bundle = SimpleNamespace(keeps_states=False, crosses_images=False)
    store = store_of(bundle, PROMPT, (Medium(2, 3, CAT),))
    assert store.longest(bundle, PROMPT, media)[0] == length


def test_a_shared_prefix_never_ends_within_a_medium():
    bundle = SimpleNamespace(keeps_states=False, crosses_images=False)
    store = store_of(bundle, PROMPT, (Medium(2, 3, CAT),))
    assert store.longest(bundle, PROMPT[:5], (Medium(2, 3, CAT),))[0] == 2  # the last id's logits are needed


def test_equal_ids_with_different_media_are_two_entries():
    store, bundle = PrefixStore(16), SimpleNamespace(keeps_states=False, crosses_images=False)
    arrays = {"k": np.zeros((2, 8, 4), np.float32)}
    for digest in (CAT, DOG, CAT):
        store.keep(bundle, PROMPT, arrays, (Medium(2, 3, digest),))
    assert (len(store), store.nbytes) == (16, 512)
    store.keep(bundle, [1] * 8, arrays)  # evicts the one with the dog, which was used before the cat
    assert [store.longest(bundle, PROMPT, (Medium(2, 3, digest),))[0] for digest in (CAT, DOG)] == [7, 2]


def test_finished_rows_are_stored_with_their_media():
    store, bundle = PrefixStore(), SimpleNamespace(keeps_states=False, crosses_images=False)
    cache = SimpleNamespace(lengths=np.array([8, 8]), row=lambda _: {"k": np.zeros((2, 8, 4), np.float32)})
    media = [(Medium(2, 3, CAT),), (Medium(2, 3, DOG),)]
    recorder = FinishedRowRecorder(store, bundle, cache, [PROMPT] * 2, [Generated(), Generated()], media)
    recorder.select(np.array([1]))
    assert [store.longest(bundle, PROMPT, row)[0] for row in media] == [7, 2]
    recorder.select(np.arange(0))
    assert [store.longest(bundle, PROMPT, row)[0] for row in media] == [7, 7]


@pytest.mark.parametrize(
    ("prompt", "media", "draft"),
    [
        ([5, 6, 99, 99, 7, 5, 6], (), [99, 99, 7]),  # as text, the ids are copied
        ([5, 6, 99, 99, 7, 5, 6], (Medium(2, 2, CAT),), []),
        ([5, 6, 8, 99, 7, 5, 6], (Medium(3, 1, CAT),), [8]),  # the copy ends before the image
        ([99, 5, 6, 7, 99], (Medium(0, 1, CAT), Medium(4, 1, CAT)), []),  # an image is no n-gram
        ([5, 6, 8, 5, 6, 99, 7, 5, 6], (Medium(5, 1, CAT),), [8, 5, 6]),  # an older match
    ],
)
def test_drafts_hold_no_media_and_match_none(prompt, media, draft):
    lookup = PromptLookup([hide(prompt, media)], 3, 2, frozenset())
    assert lookup.propose([0], [[]], [3]) == [Draft(draft)]


@pytest.mark.parametrize("medium", [Medium(2, 0, CAT), Medium(7, 2, CAT), Medium(-1, 1, CAT)])
def test_media_outside_a_prompt_are_refused(medium):
    with pytest.raises(InputError, match=r"^a medium is at .*, expected a place of its own from 0 to 8$"):
        check_media((medium,), 8)
    with pytest.raises(InputError, match=r"expected a place of its own from 5 to 8$"):
        check_media((Medium(2, 3, CAT), Medium(4, 1, DOG)), 8)


def test_a_text_model_refuses_media(bundle_of):
    model = txexport.load(bundle_of("gpt2", "static"), device="cpu", threads=1)
    request = replace(request_of(model.bundle, [PROMPT], None, {}), media=[(Medium(2, 3, CAT),)])
    with pytest.raises(InputError, match=r"^a prompt has media, and <gpt2 .* reads none; give text alone$"):
        checked(request)


def test_media_follow_their_rows(bundle_of):
    model = txexport.load(bundle_of("gpt2", "static"), device="cpu", threads=1)
    media = [(), (Medium(2, 3, CAT),)]
    request = replace(request_of(model.bundle, [[5], PROMPT], None, {}), media=media)
    assert request.of_rows([1, 0]).media == [media[1], media[0]]
    texts = replace(request, media=[(), ()])
    assert [row.request.media for row in rows_of(texts)] == [[()], [()]]


def test_an_assistant_that_reads_the_same_media_changes_no_token(bundle_of):
    model = txexport.load(bundle_of("whisper", "static"), device="cpu", threads=1)
    port = model.bundle.sessions["encoder_model"].inputs["input_features"]
    sounds = np.random.default_rng(3).standard_normal((2, *port.shape[1:])).astype(np.float32)
    options = {"max_new_tokens": 8, "eos_token_id": None}
    plain = model.generate_ids(sounds, **options)
    assert model.generate_ids(sounds, assistant_model=model, **options) == plain


def test_beams_of_a_sound_share_its_keys_and_values(bundle_of):
    """Also those of the sound that is left when another's beams have ended."""
    model = txexport.load(bundle_of("whisper", "static"), device="cpu", threads=1)
    port = model.bundle.sessions["encoder_model"].inputs["input_features"]
    sounds = np.random.default_rng(3).standard_normal((2, *port.shape[1:])).astype(np.float32)
    cross = encoded(request_of(model.bundle, sounds, None, {})).cross
    cache, ones = StaticCache(model.bundle.decoder, cross, 2, 8), np.ones(6, np.int64)
    cache.step(np.array([[5], [6]]), ones[:2])
    cache.select(np.repeat([0, 1], 3), 3)
    tokens = np.arange(7, 13)[:, None]
    logits = cache.step(tokens, ones)  # (6, V)
    assert {len(value.numpy()) for value in cache.cross.values()} == {2}
    cache.select(np.array([4, 3, 5]), 3)
    remaining = cache.step(tokens[:3], ones[:3])
    assert {len(value.numpy()) for value in cache.cross.values()} == {1}

    separate = StaticCache(model.bundle.decoder, cross, 2, 8)  # each row with a copy
    separate.step(np.array([[5], [6]]), ones[:2])
    separate.select(np.repeat([0, 1], 3))
    assert np.abs(separate.step(tokens, ones) - logits).max() < 1e-5
    separate.select(np.array([4, 3, 5]))
    assert {len(value.numpy()) for value in separate.cross.values()} == {3}
    assert np.abs(separate.step(tokens[:3], ones[:3]) - remaining).max() < 1e-5


def test_an_assistant_must_read_the_media_of_the_prompts(bundle_of):
    speech, text = (
        txexport.load(bundle_of(kind, "static"), device="cpu", threads=1) for kind in ("whisper", "bart")
    )
    port = speech.bundle.sessions["encoder_model"].inputs["input_features"]
    sounds = np.zeros((1, *port.shape[1:]), np.float32)
    for model, prompts, assistant, message in (
        (speech, sounds, text, "does not read the prompts' input_features"),
        (text, [[5, 6]], speech, "which reads input_features; choose one for text"),
    ):
        with pytest.raises(InputError, match=message):
            model.generate_ids(prompts, assistant_model=assistant)
