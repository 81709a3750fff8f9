"""Transcripts with timestamps, of sounds of any length, beside transformers' generate."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from helpers import whisper_cases
from helpers.often import often
from helpers.whisper_cases import FIRST_TIME, Original, sound

import txexport
from txexport.errors import InputError
from txexport.runtime.generation.scoring import shaped_log_probs
from txexport.runtime.tasks.whisper import decoding, fallback, transcripts

SECONDS = (0.31, 0.97, 1.0, 1.0003, 1.72, 2.43, 3.001, 7.77, 61.3)
SOUNDS = [sound(seconds, seed) for seed, seconds in enumerate(SECONDS)]


@pytest.fixture(scope="module")
def case_of(tmp_path_factory):
    """A function from config values to a checkpoint's model and its original."""
    cases: dict = {}

    def get(settings=None, **config):
        key = json.dumps([settings, config], sort_keys=True)
        if key not in cases:
            folder = tmp_path_factory.mktemp("whisper")
            whisper_cases.save(folder / "in", settings=settings, **config)
            txexport.export(folder / "in", folder / "out")
            model = txexport.load(folder / "out", device="cpu", threads=1)
            cases[key] = model, Original(folder / "in")
        return cases[key]

    return get


@pytest.fixture
def decoded(monkeypatch):
    """A function from a model and arguments of transcribe to the recordings as they end."""
    ended: list = []
    transcript = transcripts.Transcriber._transcript

    def record(self, recordings):
        ended.extend(recordings)
        return transcript(self, recordings)

    monkeypatch.setattr(transcripts.Transcriber, "_transcript", record)

    def get(model, sounds, **options):
        ended.clear()
        model.transcribe(sounds, **options)
        return sorted(ended, key=lambda recording: recording.place)

    return get


def tokens_of(recording) -> list[int]:
    return [token for segment in recording.segments for token in segment.tokens]


def expected_tokens(answer) -> list[int]:
    return [token for segment in answer["segments"][0] for token in segment["tokens"].tolist()]


def assert_segments_equal(recording, answer) -> None:
    """Tokens are equal, and times where a timestamp tells them."""
    segments = answer["segments"][0]
    assert tokens_of(recording) == answer["sequences"][0].tolist() == expected_tokens(answer)
    assert len(recording.segments) == len(segments)
    for ours, theirs in zip(recording.segments, segments, strict=True):
        assert ours.tokens == theirs["tokens"].tolist()
        if ours.end is not None:
            assert ours.end == pytest.approx(float(theirs["end"]), abs=0.006)
        start = float(theirs["start"])  # of a window without inner ends: of the window, not of its timestamp
        assert ours.start in (round(start, 2), round(start + 0.02 * (ours.tokens[0] - FIRST_TIME), 2))


OPTIONS = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "conditioned": {"condition_on_prev_tokens": True},
    "conditioned beams": {"condition_on_prev_tokens": True, "num_beams": 2},
    "short windows": {"max_new_tokens": 7},
}


@pytest.mark.parametrize("options", often(OPTIONS, slower=OPTIONS.keys() - {"conditioned"}))
def test_tokens_and_segments_of_any_length_equal_generate(options, case_of, decoded):
    model, original = case_of()
    options = {"max_new_tokens": 25} | options
    sounds = SOUNDS if len(options) == 1 else SOUNDS[:-1]
    recordings = decoded(model, sounds, timestamps="segment", language="fr", **options)
    several = 0
    for samples, recording in zip(sounds, recordings, strict=True):
        answer = original.generate(samples, language="fr", **options)
        assert_segments_equal(recording, answer)
        several += len(recording.segments) > len(samples) / 16000
    assert several >= 4  # windows end at timestamps, not only after a second


def test_windows_begin_at_timestamps(case_of, decoded, monkeypatch):
    """Else the tests above prove nothing."""
    model, _ = case_of()
    seeks: list[int] = []
    advance = transcripts.Recording.advance

    def record(self, *arguments):
        seeks.append(self.seek)
        advance(self, *arguments)

    monkeypatch.setattr(transcripts.Recording, "advance", record)
    [recording] = decoded(model, [SOUNDS[-2]], timestamps="segment", language="fr")
    assert len([seek for seek in seeks if seek % 100]) >= 3
    assert len({segment.end for segment in recording.segments}) > 8
    assert len({len(segment.tokens) for segment in recording.segments}) > 1


# With top_k=1 a sample is the likeliest token, so that tokens equal at temperatures above 0.
FALLBACKS = {
    "log-probability": {"logprob_threshold": -1.5, "temperature": (0.0, 0.4)},
    "compression": {"compression_ratio_threshold": 1.1, "temperature": (0.0, 0.2, 0.8)},
    "no speech": {"logprob_threshold": -1.42, "no_speech_threshold": 2e-5},
    "no speech, with a prompt": {
        "logprob_threshold": -1.2,
        "no_speech_threshold": 2e-5,
        "prompt": "the cat",
    },
    "all": {
        "compression_ratio_threshold": 1.35,
        "logprob_threshold": -1.4,
        "no_speech_threshold": 3e-5,
        "temperature": (0.0, 0.0, 0.6),
        "condition_on_prev_tokens": True,
    },
    "beams": {"logprob_threshold": -1.42, "no_speech_threshold": 2e-5, "num_beams": 2},
    "penalised beams": {
        "logprob_threshold": -1.42,
        "no_speech_threshold": 2e-5,
        "num_beams": 2,
        "repetition_penalty": 1.4,
    },
}


@pytest.mark.parametrize("options", often(FALLBACKS, slower=FALLBACKS.keys() - {"no speech"}))
def test_windows_are_decoded_again_or_skipped_as_by_generate(options, case_of, decoded, monkeypatch):
    model, original = case_of()
    verdicts = set()
    verdict = fallback.Thresholds.verdict

    def record(self, *arguments):
        verdicts.add(verdict(self, *arguments))
        return verdict(self, *arguments)

    monkeypatch.setattr(fallback.Thresholds, "verdict", record)
    theirs = {"max_new_tokens": 25, "top_k": 1, "temperature": 0.0} | options
    ours = {name: value for name, value in theirs.items() if name != "top_k"}
    if isinstance(ours["temperature"], tuple):
        ours["top_k"] = 1
    if "prompt" in theirs:
        theirs["prompt_ids"] = original.prompt_ids(theirs.pop("prompt"))
    sounds = SOUNDS[:-1]
    recordings = decoded(model, sounds, timestamps="segment", language="fr", **ours)
    for samples, recording in zip(sounds, recordings, strict=True):
        assert_segments_equal(recording, original.generate(samples, language="fr", **theirs))
    expected = fallback.Verdict.SKIP if "no_speech_threshold" in options else fallback.Verdict.AGAIN
    assert {expected, fallback.Verdict.KEEP} <= verdicts


def test_log_probabilities_are_those_of_the_search(case_of, monkeypatch):
    """Read again after the search, as beams and samples are, they equal those that greedy search records."""
    model, _ = case_of()
    pairs = []
    generated = decoding.Decoding._generated

    def record(self, batch, recordings, index):
        tokens, means = generated(self, batch, recordings, index)
        again = shaped_log_probs(batch, tokens)
        warm = replace(batch, config=replace(batch.config, do_sample=True, temperature=0.5, top_k=0))
        scaled = shaped_log_probs(warm, tokens)
        pairs.extend(zip(means, map(np.mean, again), map(np.mean, scaled), strict=True))
        return tokens, means

    monkeypatch.setattr(decoding.Decoding, "_generated", record)
    model.transcribe(
        SOUNDS[2:7], language="fr", timestamps="segment", logprob_threshold=-9, max_new_tokens=20
    )
    recorded, again, scaled = np.array(pairs).T
    np.testing.assert_allclose(again, recorded, atol=1e-5)
    np.testing.assert_allclose(scaled, recorded, atol=1e-5)  # the temperature is undone
    assert len(recorded) > 8


PROMPTS = {
    "first": {},
    "first, then history": {"condition_on_prev_tokens": True},
    "every window": {"condition_on_prev_tokens": True, "prompt_condition_type": "all-segments"},
}


@pytest.mark.parametrize("options", often(PROMPTS, slower=("first", "every window")))
def test_prompts_equal_generate(options, case_of, decoded):
    model, original = case_of()
    options = {"max_new_tokens": 20} | options
    prompt = "  the cat sat "
    sounds = SOUNDS[:-1]
    ids = original.prompt_ids(prompt)
    plain = decoded(model, sounds, timestamps="segment", language="fr", **options)
    recordings = decoded(model, sounds, timestamps="segment", language="fr", prompt=prompt, **options)
    for samples, recording in zip(sounds, recordings, strict=True):
        answer = original.generate(samples, language="fr", prompt_ids=ids, **options)
        assert_segments_equal(recording, answer)
    assert list(map(tokens_of, plain)) != list(map(tokens_of, recordings))


def test_languages_and_translations_equal_generate(case_of, decoded):
    model, original = case_of()
    codes = set()
    for task in ("transcribe", "translate"):
        recordings = decoded(model, SOUNDS[:-1], timestamps="segment", task=task, max_new_tokens=20)
        for samples, recording in zip(SOUNDS, recordings, strict=False):
            answer = original.generate(samples, task=task, max_new_tokens=20)
            assert tokens_of(recording) == answer["sequences"][0].tolist()
            languages = original.model.detect_language(original.features(samples), num_segment_frames=100)
            assert recording.language == int(languages[0])
            codes.add(recording.language)
    assert len(codes) == 2
    [transcript] = model.transcribe([SOUNDS[0]], timestamps="segment", max_new_tokens=20)
    assert transcript.language in ("en", "fr")
    assert model.transcribe(SOUNDS[0], timestamps="segment", language="fr").language == "fr"


ENGLISH_ONLY = {"lang_to_id": {}, "task_to_id": {}, "is_multilingual": False}


DISTILLED = {"one layer": {"decoder_layers": 1}, "three layers": {"decoder_layers": 3, "encoder_layers": 1}}


@pytest.mark.parametrize("case", often(DISTILLED, slower=("three layers",)))
def test_distilled_decoders_equal_generate(case, case_of, decoded):
    model, original = case_of(**case)
    recordings = decoded(model, SOUNDS[:-1], timestamps="segment", language="fr", max_new_tokens=25)
    for samples, recording in zip(SOUNDS, recordings, strict=False):
        assert_segments_equal(recording, original.generate(samples, language="fr", max_new_tokens=25))


def test_an_english_model_equals_generate(case_of, decoded):
    model, original = case_of(ENGLISH_ONLY)
    del original.model.generation_config.lang_to_id, original.model.generation_config.task_to_id
    options = {"max_new_tokens": 25, "logprob_threshold": -1.42, "no_speech_threshold": 2e-5}
    for more in ({}, {"condition_on_prev_tokens": True}):
        recordings = decoded(model, SOUNDS[:-1], timestamps="segment", **options, **more)
        for samples, recording in zip(SOUNDS, recordings, strict=False):
            answer = original.generate(samples, task=None, temperature=0.0, **options, **more)
            assert_segments_equal(recording, answer)
            assert recording.language is None


def test_a_transcript_does_not_depend_on_its_batch(case_of):
    model, _ = case_of()
    options = {"timestamps": "segment", "max_new_tokens": 20, "condition_on_prev_tokens": True}
    options |= {"temperature": (0.0, 0.7), "logprob_threshold": -1.2, "seed": 3}
    single = [
        model.transcribe(samples, first_place=place, **options) for place, samples in enumerate(SOUNDS[:-1])
    ]
    done: list = []
    for budget in (1, 150, 8192):
        results = model.transcribe(
            SOUNDS[:-1], batch_tokens=budget, progress=lambda *counts: done.append(counts), **options
        )
        assert results == single
        assert done[-1] == (8, 8)
    assert model.transcribe([], timestamps="segment") == []


def test_batches_equal_generate_of_a_batch(case_of, decoded):
    """transformers' own batches, from features that padding does not change."""
    model, original = case_of()
    sounds = [SOUNDS[place] for place in (4, 5, 6, 7)]
    features = [model.audio.recording(samples) for samples in sounds]
    frames = [one.shape[1] for one in features]
    padded = [np.pad(one, ((0, 0), (0, max(frames) - one.shape[1]))) for one in features]
    mask = np.array([[place < count for place in range(max(frames))] for count in frames], np.int64)
    for options in ({}, {"condition_on_prev_tokens": True}):
        options |= {"max_new_tokens": 20, "language": "fr"}
        with torch.no_grad():
            answer = original.model.generate(
                torch.from_numpy(np.stack(padded)),
                attention_mask=torch.from_numpy(mask),
                return_segments=True,
                return_timestamps=True,
                task="transcribe",
                **options,
            )
        recordings = decoded(model, sounds, timestamps="segment", **options)
        for recording, segments in zip(recordings, answer["segments"], strict=True):
            assert [one.tokens for one in recording.segments] == [one["tokens"].tolist() for one in segments]


def test_a_long_sound_without_times_is_the_text_of_its_segments(case_of):
    model, original = case_of()
    transcript = model.transcribe(SOUNDS[5], timestamps="segment", language="fr", max_new_tokens=20)
    text = model.transcribe(SOUNDS[5], language="fr", max_new_tokens=20)
    assert text == transcript.text == "".join(segment.text for segment in transcript.segments)
    assert len(text) > 10
    short = model.transcribe(SOUNDS[1], language="fr", max_new_tokens=20)
    answer = original.generate(SOUNDS[1], language="fr", return_timestamps=False, max_new_tokens=20)
    assert short == model.text.decode([answer["sequences"][0].tolist()])[0]


BAD = {
    "timestamps is 'line'": {"timestamps": "line"},
    "chunk_length_s is 2, expected at most 1": {"chunk_length_s": 2},
    "chunk_length_s is 'long'": {"chunk_length_s": "long"},
    "stride_length_s needs chunk_length_s": {"stride_length_s": 0.1},
    "no samples beside contexts": {"chunk_length_s": 0.5, "stride_length_s": 0.25},
    "language 'klingon' is not known": {"language": "klingon", "timestamps": "word"},
    "temperature is -1": {"temperature": (0.0, -1)},
    "temperature is empty": {"temperature": ()},
    "logprob_threshold is 'low'": {"logprob_threshold": "low"},
    "no_speech_threshold needs logprob_threshold": {"no_speech_threshold": 0.6},
    "temperature is 1000": {"temperature": 10**400},
    "logprob_threshold is -1000": {"logprob_threshold": -(10**400)},
    "prompt is 5": {"prompt": 5},
    "prompt has the special token": {"prompt": "the <|fr|> cat"},
    "prompt_condition_type is 'last'": {"prompt": "the", "prompt_condition_type": "last"},
    "'all-segments' needs condition_on_prev_tokens": {"prompt": "a", "prompt_condition_type": "all-segments"},
    "condition_on_prev_tokens is 'yes'": {"condition_on_prev_tokens": "yes"},
    "leaves no room": {"prompt": "the cat sat " * 40},
}


@pytest.mark.parametrize("message", BAD)
def test_a_bad_option_is_one_line(message, case_of):
    model, _ = case_of()
    with pytest.raises(InputError, match=message) as error:
        model.transcribe(SOUNDS[1], **BAD[message])
    assert "\n" not in str(error.value)


def test_a_threshold_may_be_a_number_of_numpy(case_of):
    model, _ = case_of()
    options = {"logprob_threshold": -9.0, "compression_ratio_threshold": 4.0, "temperature": 0.5}
    as_numpy = {name: np.float32(value) for name, value in options.items()}
    expected = model.transcribe(SOUNDS[1], timestamps="segment", seed=3, **options)
    assert model.transcribe(SOUNDS[1], timestamps="segment", seed=3, **as_numpy) == expected


def test_the_encoder_runs_once_a_window_at_all_temperatures(case_of, monkeypatch):
    model, _ = case_of()
    [encoder] = [model.bundle.sessions[stage.role] for stage in model.bundle.once[:1]]
    runs, run_values = [], type(encoder).run_values

    def counted(session, *arguments):
        runs.append(session is encoder)
        return run_values(session, *arguments)

    monkeypatch.setattr(type(encoder), "run_values", counted)
    options = {"temperature": (0.0, 0.2, 0.4), "logprob_threshold": 99.0, "seed": 3, "language": "fr"}
    model.transcribe([SOUNDS[1], SOUNDS[1]], timestamps="segment", max_new_tokens=5, **options)
    assert sum(runs) == 1


def test_a_grammar_has_no_timestamps(case_of):
    """All tokens would be ruled out, and the transcript would be empty."""
    model, _ = case_of()
    for name, value in (("json_schema", {"type": "object"}), ("regex", "[a-z ]+")):
        options = {name: value, "language": "fr", "max_new_tokens": 8}
        assert model.transcribe(SOUNDS[1], **options)
        for samples, timed in ((SOUNDS[1], {"timestamps": "segment"}), (SOUNDS[5], {})):
            with pytest.raises(InputError, match=f"^{name} rules out timestamps, .* cut the sound$"):
                model.transcribe(samples, **options, **timed)


def test_a_language_of_a_model_of_english(case_of):
    model, _ = case_of({"lang_to_id": None, "task_to_id": None, "is_multilingual": False})
    with pytest.raises(InputError, match="language is 'en', an option of models of many languages; leave it"):
        model.transcribe(SOUNDS[1], language="en")


def test_generate_gives_texts(case_of):
    model, _ = case_of()
    with pytest.raises(InputError, match="timestamps is an option of transcribe"):
        model.generate(SOUNDS[1], timestamps="segment")
    options = {"language": "fr", "max_new_tokens": 20}
    assert model.generate(SOUNDS[4], **options) == model.transcribe(SOUNDS[4], **options)


def test_a_model_without_timestamps_reads_one_window(case_of):
    model, _ = case_of({"no_timestamps_token_id": None})
    with pytest.raises(InputError, match="timestamps need no_timestamps_token_id"):
        model.transcribe(SOUNDS[1], timestamps="segment")
    with pytest.raises(InputError, match=r"1\.72 s long, expected at most 1 s"):
        model.transcribe(SOUNDS[4])


def test_segments_equal_the_pipeline(case_of):
    """In windows of 30 s that begin at 0.00, with equal timestamps in pairs, as the pipeline assumes.

    Of others it makes an empty chunk, or one that ends before it starts.
    """
    steps = range(FIRST_TIME, FIRST_TIME + 1501)
    times = [[[time], 5.0 if (time - FIRST_TIME) % 167 == 0 else -30.0] for time in steps]
    pairs = [[[time, time], 20.0] for time in steps]
    settings = {"max_initial_timestamp_index": 0, "sequence_bias": times + pairs}
    model, original = case_of(settings, seconds=30)
    judge = transformers.pipeline("automatic-speech-recognition", model=str(original.folder), device="cpu")
    several = 0
    for seed, seconds in enumerate((0.4, 3.3, 9.01, 17.2, 29.99, 31.7, 44.03, 75.5)):
        samples = sound(seconds, seed)
        options = {"language": "fr", "task": "transcribe", "max_new_tokens": 25, "num_beams": 1}
        ours = model.transcribe(samples, timestamps="segment", **options)
        theirs = judge(samples.copy(), return_timestamps=True, generate_kwargs=options)
        chunks = theirs["chunks"]
        assert ours.text == theirs["text"]
        assert [one.text for one in ours.segments] == [one["text"] for one in chunks]
        assert [(one.start, one.end) for one in ours.segments] == [one["timestamp"] for one in chunks]
        several += len(ours.segments) > 1 + seconds // 30
    assert several >= 3
