"""Times of words and overlapping pieces, beside transformers' pipeline."""

import json

import numpy as np
import pytest
import transformers
from helpers import whisper_cases
from helpers.often import often
from helpers.whisper_cases import FIRST_TIME, sound
from transformers.models.whisper import generation_whisper, tokenization_whisper

import txexport
from txexport.errors import InputError
from txexport.runtime.tasks.whisper import alignment

SECONDS = (0.31, 0.55, 0.97, 1.0, 1.0003, 1.72, 2.43, 3.001, 7.77)
SOUNDS = [sound(seconds, seed) for seed, seconds in enumerate(SECONDS)]
COMMON = {"language": "fr", "task": "transcribe", "max_new_tokens": 25, "num_beams": 1}


@pytest.fixture(scope="module")
def case_of(tmp_path_factory):
    """A function from config values to a checkpoint's model and transformers' pipeline."""
    cases: dict = {}

    def get(settings=None, **config):
        key = json.dumps([settings, config], sort_keys=True)
        if key not in cases:
            folder = tmp_path_factory.mktemp("whisper")
            whisper_cases.save(folder / "in", settings=settings, **config)
            txexport.export(folder / "in", folder / "out")
            model = txexport.load(folder / "out", device="cpu", threads=1)
            cases[key] = (
                model,
                transformers.pipeline("automatic-speech-recognition", model=str(folder / "in"), device="cpu"),
            )
        return cases[key]

    return get


@pytest.fixture(autouse=True)
def windows_of_a_second(monkeypatch):
    """Let the tokenizer count windows of a second, and no window have less than a position.

    A window may begin after the end of the sound. There transformers takes a negative number of positions,
    which counts from the end.
    """
    monkeypatch.setitem(tokenization_whisper._decode_asr.__kwdefaults__, "segment_size", 50)
    extract = generation_whisper.WhisperGenerationMixin._extract_token_timestamps

    def clamped(self, *arguments, num_frames, **options):
        return extract(self, *arguments, num_frames=num_frames.clamp(min=2), **options)

    monkeypatch.setattr(generation_whisper.WhisperGenerationMixin, "_extract_token_timestamps", clamped)


def assert_words_equal(transcript, expected) -> int:
    """Text, words and times are equal; returns the number of words."""
    assert transcript.text == expected["text"]
    result = [(one.text, (one.start, one.end)) for one in transcript.words]
    assert result == [(one["text"], one["timestamp"]) for one in expected["chunks"]]
    return len(result)


OPTIONS = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "conditioned": {"condition_on_prev_tokens": True},
    "short windows": {"max_new_tokens": 7},
    "two tokens": {"max_new_tokens": 2},
}


@pytest.mark.parametrize("options", often(OPTIONS, slower=OPTIONS.keys() - {"conditioned"}))
def test_words_of_any_length_equal_the_pipeline(options, case_of):
    model, judge = case_of()
    options = COMMON | options
    sounds = SOUNDS if options == COMMON else SOUNDS[:-1]
    transcripts = model.transcribe(sounds, timestamps="word", **options)
    count, times = 0, set()
    for samples, transcript in zip(sounds, transcripts, strict=True):
        expected = judge(samples.copy(), return_timestamps="word", generate_kwargs=options)
        count += assert_words_equal(transcript, expected)
        times |= {word.end for word in transcript.words}
    if options["max_new_tokens"] > 2:
        assert count > 15
        assert len(times) > 10


LAYERS = {
    "distilled": {"decoder_layers": 2, "encoder_layers": 3},
    "turbo": {"decoder_layers": 4, "encoder_layers": 5, "num_mel_bins": 128},
    "one layer": {"decoder_layers": 1},
}


@pytest.mark.parametrize("config", LAYERS.values(), ids=LAYERS)
def test_words_without_alignment_heads_are_by_the_second_half_of_the_layers(config, case_of):
    """Also where a distilled model names heads of its teacher."""
    heads = [[7, 0], [10, 17]] if config["decoder_layers"] == 2 else None
    model, judge = case_of({"alignment_heads": heads}, **config)
    layers = config["decoder_layers"]
    later = [[layer, head] for layer in range(layers // 2, layers) for head in range(4)]
    judge.model.generation_config.alignment_heads = later
    assert model.bundle.manifest.spec["alignment"]["for_others"] is False
    # Windows of the third sound have two tokens, which are 1 and -1 when normalised: every path ties.
    for samples in (*SOUNDS[:2], *SOUNDS[3:-1]):
        transcript = model.transcribe(samples, timestamps="word", **COMMON)
        expected = judge(samples.copy(), return_timestamps="word", generate_kwargs=COMMON)
        assert_words_equal(transcript, expected)


def test_languages_without_spaces_are_split_by_characters(case_of):
    languages = {"<|en|>": whisper_cases.ENGLISH, "<|zh|>": whisper_cases.FRENCH}
    model, judge = case_of({"lang_to_id": languages})
    changed = 0
    for samples in SOUNDS[4:-1]:
        options = COMMON | {"language": "chinese"}
        transcript = model.transcribe(samples, timestamps="word", **options)
        assert transcript.language == "zh"
        judge.tokenizer.language = "chinese"
        expected = judge(samples.copy(), return_timestamps="word", generate_kwargs=options)
        assert_words_equal(transcript, expected)
        judge.tokenizer.language = None
        spaced = judge(samples.copy(), return_timestamps="word", generate_kwargs=options)
        changed += len(spaced["chunks"]) < len(expected["chunks"])
        options["task"] = "translate"  # into English, which has spaces
        transcript = model.transcribe(samples, timestamps="word", **options)
        expected = judge(samples.copy(), return_timestamps="word", generate_kwargs=options)
        assert_words_equal(transcript, expected)
    assert changed >= 2


def test_words_do_not_depend_on_the_batch(case_of):
    model, _ = case_of()
    single = [model.transcribe(samples, timestamps="word", **COMMON) for samples in SOUNDS]
    for budget in (1, 150, 8192):
        assert model.transcribe(SOUNDS, timestamps="word", batch_tokens=budget, **COMMON) == single
    segments = model.transcribe(SOUNDS, timestamps="segment", **COMMON)
    assert [one.segments for one in segments] == [one.segments for one in single]
    assert not any(one.words for one in segments)


# Timestamps that a model writes unasked would end windows in transformers.
UNTIMED = COMMON | {"suppress_tokens": [7, 8, *range(FIRST_TIME, FIRST_TIME + 51)]}
# Pieces of a window and of less, which need no timestamps to end.
PIECES = {
    "default stride": {"chunk_length_s": 1.0},
    "one stride": {"chunk_length_s": 0.9, "stride_length_s": 0.25},
    "two strides": {"chunk_length_s": 0.77, "stride_length_s": (0.2, 0.31)},
    "no stride": {"chunk_length_s": 0.6, "stride_length_s": 0},
}


@pytest.mark.parametrize("pieces", often(PIECES, slower=PIECES.keys() - {"default stride"}))
def test_overlapping_pieces_equal_the_pipeline(pieces, case_of):
    model, judge = case_of()
    merged = 0
    theirs = {name: [*value] if isinstance(value, tuple) else value for name, value in pieces.items()}
    for samples in SOUNDS[:-1]:
        expected = judge(samples.copy(), generate_kwargs=UNTIMED, **theirs)
        assert model.transcribe(samples, **UNTIMED, **pieces) == expected["text"]
        expected = judge(samples.copy(), return_timestamps=True, generate_kwargs=COMMON, **theirs)
        transcript = model.transcribe(samples, timestamps="segment", **COMMON, **pieces)
        assert transcript.text == expected["text"]
        result = [(one.text, (one.start, one.end)) for one in transcript.segments]
        chunks = [(one["text"], one["timestamp"]) for one in expected["chunks"]]
        assert result == [(text, times) for text, times in chunks if text]
        expected = judge(samples.copy(), return_timestamps="word", generate_kwargs=COMMON, **theirs)
        assert_words_equal(model.transcribe(samples, timestamps="word", **COMMON, **pieces), expected)
        merged += len(result) > 1
    assert merged >= 2


def test_pieces_of_many_sounds_equal_those_of_each(case_of):
    model, _ = case_of()
    options = COMMON | {"chunk_length_s": 0.8, "timestamps": "word"}
    single = [model.transcribe(samples, **options) for samples in SOUNDS]
    counts: list = []
    for budget in (1, 150, 8192):
        counts.clear()
        batch = model.transcribe(
            SOUNDS, batch_tokens=budget, progress=lambda *count: counts.append(count), **options
        )
        assert batch == single
        assert counts[-1] == (9, 9)


def test_the_graph_of_alignment_is_opened_when_it_is_needed(case_of):
    model, _ = case_of()
    folder = model.bundle.folder
    model = txexport.load(folder, device="cpu", threads=1)
    model.transcribe(SOUNDS[0], timestamps="segment", **COMMON)
    assert "alignment_model" not in model.bundle.sessions
    model.transcribe(SOUNDS[0], timestamps="word", **COMMON)
    assert "alignment_model" in model.bundle.sessions
    outputs = model.bundle.run(
        "alignment_model",
        input_ids=np.array([[5, 6]]),
        **{
            name: np.zeros((1, *port.shape[1:]), np.float32)
            for name, port in model.bundle.sessions["alignment_model"].inputs.items()
            if name != "input_ids"
        },
    )
    assert outputs["alignment_weights"].shape == (1, 3, 2, 50)


def test_a_bundle_without_the_graph_is_refused(case_of, monkeypatch):
    model, _ = case_of()
    monkeypatch.setattr(alignment, "ALIGNMENT_WEIGHTS", "others")
    with pytest.raises(InputError, match="needs the graph that aligns words"):
        model.transcribe(SOUNDS[0], timestamps="word", **COMMON)


BREAKS = {
    "a head dropped": (alignment, "alignment_weights", lambda rows: [row[1:] for row in rows]),
    "the first token shifted": (
        alignment,
        "alignment_weights",
        lambda rows: [np.roll(row, -1, axis=1) for row in rows],
    ),
    "no filter": (alignment, "_median_filtered", None),
    "no normalisation": (alignment, "_normalised", None),
}


@pytest.mark.parametrize("name", often([*BREAKS], slower=("no filter", "no normalisation")))
def test_every_step_changes_times(name, case_of, monkeypatch):
    """Else the comparisons above prove nothing."""
    from txexport.runtime.tasks.whisper import decoding

    model, judge = case_of()
    module, function, change = BREAKS[name]
    if change is None:
        monkeypatch.setattr(module, function, lambda weights, *_: weights)
    else:
        original = getattr(module, function)
        monkeypatch.setattr(decoding, function, lambda *arguments: change(original(*arguments)))
    differ = 0
    for samples in SOUNDS[1:-1]:
        transcript = model.transcribe(samples, timestamps="word", **COMMON)
        expected = judge(samples.copy(), return_timestamps="word", generate_kwargs=COMMON)
        times = [(one.start, one.end) for one in transcript.words]
        differ += times != [one["timestamp"] for one in expected["chunks"]]
    assert differ >= 3


def test_seeded_samples_have_words(case_of):
    model, _ = case_of()
    options = COMMON | {"temperature": (0.0, 0.8), "logprob_threshold": -1.0, "seed": 5}
    first = model.transcribe(SOUNDS[4:8], timestamps="word", **options)
    assert first == model.transcribe(SOUNDS[4:8], timestamps="word", **options)
    for transcript in first:
        ends = [word.end for word in transcript.words]
        assert len(transcript.words) > 1
        assert all(end is not None and end >= 0 for end in ends)
