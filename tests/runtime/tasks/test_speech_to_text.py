"""Texts of waveforms by an encoder and a decoder, beside transformers' generate."""

import numpy as np
import pytest
import torch
import transformers
from helpers.speech import MOONSHINE, recordings, save_moonshine, write_wav

from txexport import export, load
from txexport.errors import InputError
from txexport.runtime import memory
from txexport.runtime.generation.requests import request_of
from txexport.runtime.generation.running_batch import RunningBatch, rows_of

pytestmark = pytest.mark.filterwarnings("ignore:max_new_tokens=.* overrides max_length")

MAX_LENGTH = 7
SOUNDS = [sound for sound in recordings() if sound.size >= 895]


@pytest.fixture(scope="module", params=["static", "dynamic"])
def pair(request, tmp_path_factory):
    """A model that reads waveforms, and its original."""
    folder = tmp_path_factory.mktemp("moonshine")
    save_moonshine(folder / "in", max_length=MAX_LENGTH)
    export(folder / "in", folder / "out", cache=request.param)
    original = transformers.MoonshineForConditionalGeneration.from_pretrained(folder / "in").eval()
    return load(folder / "out", device="cpu", threads=1), original


def expected_ids(original, sound: np.ndarray, **options) -> list[int]:
    """The new tokens of transformers for one sound."""
    extractor = transformers.Wav2Vec2FeatureExtractor(**MOONSHINE)
    inputs = extractor(sound, sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        return original.generate(**inputs, do_sample=False, **options)[0, 1:].tolist()


@pytest.mark.parametrize(
    "options", [{"max_new_tokens": 12}, {"max_new_tokens": 9, "num_beams": 3}, {"max_length": 8}]
)
def test_texts_of_sounds_equal_transformers(options, pair):
    """Of sounds of several lengths in one call, each of which transformers reads alone."""
    model, original = pair
    expected = model.text.decode([expected_ids(original, sound, **options) for sound in SOUNDS])
    assert len({*expected}) > 3
    counts: list = []
    assert model.transcribe(SOUNDS, progress=lambda *count: counts.append(count), **options) == expected
    assert counts == [(done, len(SOUNDS)) for done in range(1, len(SOUNDS) + 1)]
    assert model.transcribe(SOUNDS[1], **options) == expected[1]
    assert model.generate(SOUNDS, **options) == expected
    assert model.generate_ids(SOUNDS, **options) == [
        expected_ids(original, sound, **options) for sound in SOUNDS
    ]
    assert model.transcribe([]) == []


def test_without_a_limit_the_generation_config_counts(pair):
    model, original = pair
    expected = [expected_ids(original, sound) for sound in SOUNDS]
    assert max(map(len, expected)) == MAX_LENGTH - 1  # it counts the start token
    assert model.transcribe(SOUNDS) == model.text.decode(expected)


def test_a_file_and_a_stream(pair, tmp_path):
    model, _ = pair
    path = write_wav(tmp_path / "sound.wav", SOUNDS[2])
    text = model.transcribe(path, max_new_tokens=12)
    assert text
    assert "".join(model.stream(path, max_new_tokens=12)) == text
    assert [*model.stream_transcript(path, max_new_tokens=12)] == [text]


def test_waveforms_come_and_go_in_a_running_batch(pair):
    """Rows of one length run together, rows of others beside them."""
    model, original = pair
    sounds = [sound[:size] for sound in SOUNDS[:3] for size in (1000, 1280, 1600)]
    expected = [expected_ids(original, sound, max_new_tokens=10) for sound in sounds]
    rows = [rows_of(request_of(model.bundle, [one], None, {"max_new_tokens": 10})) for one in sounds]
    batch = RunningBatch(model.bundle)
    groups = 0
    batch.add([row for [row] in rows])
    while batch.busy:
        batch.step()
        groups = max(groups, len(batch.groups))
    assert [row.error for [row] in rows] == [None] * len(rows)
    assert [row.result.tokens for [row] in rows] == expected
    assert groups > 1


def test_a_temperature_samples(pair):
    model, _ = pair
    greedy, *sampled = [
        [
            model.transcribe(SOUNDS[0], max_new_tokens=6, temperature=1.5 * bool(seed), seed=seed)
            for _ in range(2)
        ]
        for seed in range(4)
    ]
    assert greedy == [model.transcribe(SOUNDS[0], max_new_tokens=6)] * 2
    assert all(first == second for first, second in sampled)
    assert len({first for first, _ in sampled}) > 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"timestamps": "word"}, "timestamps is an option of Whisper and CTC models, and this is neither"),
        ({"chunk_length_s": 10}, "chunk_length_s is an option of Whisper and CTC models"),
        ({"prompt": "a"}, "prompt is an option of Whisper and CTC models"),
        ({"language": "fr"}, "language is 'fr', but this model has no token of a language"),
        ({"task": "translate"}, "task is 'translate', expected 'transcribe' or None"),
        ({"num_return_sequences": 2, "num_beams": 2}, "num_return_sequences must be 1, and is 2"),
        ({"first_place": -1}, "first_place is -1"),
    ],
)
def test_options_of_other_models_are_one_line(options, line, pair):
    with pytest.raises(InputError, match=line):
        pair[0].transcribe(SOUNDS[0], **options)


def test_a_sound_too_long_for_memory_is_one_line(pair, monkeypatch):
    """Attention's memory is known before the graph runs."""
    monkeypatch.setattr(memory, "total", lambda: 2**25)
    with pytest.raises(InputError, match="a sound of 60 s"):
        pair[0].transcribe(np.zeros(60 * 16000, np.float32))


def test_a_sound_too_short_is_one_line(pair):
    model, _ = pair
    with pytest.raises(InputError, match="a sound has 894 samples at 16000 Hz, expected 895 or more"):
        model.transcribe(SOUNDS[0][:894])
    with pytest.raises(
        InputError, match=r"a waveform is of shape \(894,\), expected one axis of 895 or more"
    ):
        model.generate_ids([SOUNDS[0][:894]])
    with pytest.raises(InputError, match=r"a waveform is of shape \(2, 900\)"):
        model.generate_ids(np.zeros((1, 2, 900), np.float32))
    with pytest.raises(InputError, match="a waveform is not an array of numbers"):
        model.generate_ids(["sound.wav"])
