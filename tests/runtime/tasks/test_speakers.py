"""Turns and vectors of speakers, beside transformers' classes."""

import json

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from click.testing import CliRunner
from helpers.row import TIME_DELAYS
from helpers.speech import write_wav

import txexport
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime.tasks.audio_tasks import turns_of

NAMES = {"id2label": {0: "Anna", 1: "Ben", 2: "Cleo"}, "label2id": {"Anna": 0, "Ben": 1, "Cleo": 2}}
KINDS = {
    "wav2vec2": ("wav2vec2", "Wav2Vec2", {}, False),
    "wav2vec2, masked": ("wav2vec2", "Wav2Vec2", {"feat_extract_norm": "layer"}, True),
    "wavlm, masked": ("wavlm", "WavLM", {"use_weighted_layer_sum": True}, True),
}


def sounds() -> list[np.ndarray]:
    """Eight sounds (N,) float32 of odd lengths, of several pitches and loudnesses."""
    draw = np.random.default_rng(4)
    result = []
    for count in (401, 777, 1600, 3333, 5001, 7000, 12345, 16001):
        pitch, noise = draw.uniform(0.02, 0.3), draw.standard_normal(count)
        swell = np.sin(np.arange(count) / count * 9)
        result.append((swell * np.sin(np.arange(count) * pitch) + 0.1 * noise).astype(np.float32))
    return result


@pytest.fixture(scope="module")
def case_of(tmp_path_factory):
    """A function from a kind, a class and config values to the original, its extractor, and the model."""

    def get(kind, name, **config):
        model_type, prefix, sizes, masked = KINDS[kind]
        folder = tmp_path_factory.mktemp("speakers")
        tiny_checkpoint.save(folder / "in", model_type, f"{prefix}For{name}", **sizes, **config)
        extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=masked)
        extractor.save_pretrained(folder / "in")
        original = getattr(transformers, f"{prefix}For{name}").from_pretrained(folder / "in").eval()
        txexport.export(folder / "in", folder / "out")
        return original, extractor, txexport.load(folder / "out", device="cpu")

    return get


def outputs(original, extractor, sound):
    with torch.no_grad():
        return original(**extractor(sound, sampling_rate=16000, return_tensors="pt"))


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_equal_the_original(kind, case_of):
    original, extractor, model = case_of(kind, "XVector", **TIME_DELAYS)
    progress: list = []
    vectors = model.embed_speaker(sounds(), normalize=False, progress=lambda *counts: progress.append(counts))
    expected = [outputs(original, extractor, sound).embeddings[0].numpy() for sound in sounds()]
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    assert progress[-1] == (8, 8)
    unit = model.embed_speaker(sounds())
    cosines = torch.nn.functional.cosine_similarity(
        torch.tensor(expected[0])[None], torch.tensor(np.array(expected)), dim=1
    )
    np.testing.assert_allclose(unit @ unit[0], cosines.numpy(), atol=1e-5)
    np.testing.assert_array_equal(model.embed_speaker(sounds()[3]), unit[3])
    assert model.embed_speaker([]).shape == (0, 14)


def test_a_sound_that_is_too_short_for_the_layers(case_of):
    """A standard deviation needs two outputs of the time-delay layers, which need six vectors."""
    _, _, model = case_of("wav2vec2", "XVector", **TIME_DELAYS)
    facts = model.bundle.reader.facts
    assert (facts.least_samples, facts.vector_stride) == (30 + 5 * 20, 20)
    assert np.isfinite(model.embed_speaker(sounds()[0][: facts.least_samples])).all()
    with pytest.raises(InputError, match="a sound has 129 samples at 16000 Hz, expected 130 or more"):
        model.embed_speaker(sounds()[0][: facts.least_samples - 1])


def by_hand(chances: np.ndarray, threshold: float) -> list[tuple]:
    """The turns of probabilities (S,K), vector by vector."""
    turns = []
    for speaker in range(chances.shape[1]):
        start = None
        for vector in range(len(chances) + 1):
            heard = vector < len(chances) and chances[vector, speaker] >= threshold
            if heard and start is None:
                start = vector
            if not heard and start is not None:
                turns.append((start, vector, speaker, chances[start:vector, speaker].mean()))
                start = None
    return sorted(turns, key=lambda turn: (turn[0], turn[1]))


@pytest.mark.parametrize("problem", [None, "single_label_classification"])
@pytest.mark.parametrize("kind", KINDS)
def test_turns_are_those_of_the_original_s_probabilities(kind, problem, case_of):
    original, extractor, model = case_of(kind, "AudioFrameClassification", problem_type=problem, **NAMES)
    threshold, seconds, count = 0.5 if problem is None else 0.3512, 20 / 16000, 0
    for sound, ours in zip(sounds(), model.diarize(sounds(), threshold=threshold), strict=True):
        logits = outputs(original, extractor, sound).logits[0].double()
        chances = logits.sigmoid() if problem is None else logits.softmax(dim=-1)
        assert (chances - threshold).abs().min() > 1e-6
        expected = by_hand(chances.numpy(), threshold)
        assert [(turn["start"], turn["end"], turn["label"]) for turn in ours] == [
            (pytest.approx(start * seconds), pytest.approx(end * seconds), NAMES["id2label"][speaker])
            for start, end, speaker, _ in expected
        ]
        assert [turn["score"] for turn in ours] == pytest.approx([turn[3] for turn in expected], abs=1e-5)
        count += len(ours)
    assert count > 16
    assert model.diarize(sounds()[2], threshold=threshold) == model.diarize(sounds(), threshold=threshold)[2]
    assert model.diarize([]) == []


def test_turns():
    chances = np.array([[0.9, 0.1], [0.7, 0.6], [0.2, 0.5], [0.8, 0.1]])
    assert turns_of(chances, ["A", "B"], 0.5, 0.5) == [
        {"label": "A", "score": pytest.approx(0.8), "start": 0.0, "end": 1.0},
        {"label": "B", "score": pytest.approx(0.55), "start": 0.5, "end": 1.5},
        {"label": "A", "score": pytest.approx(0.8), "start": 1.5, "end": 2.0},
    ]
    assert turns_of(chances[:, :1] * 0, ["A"], 0.5, 0.5) == []


@pytest.mark.parametrize("threshold", [0, 1, True, "x", float("nan")])
def test_a_threshold_that_is_no_probability(threshold, case_of):
    _, _, model = case_of("wav2vec2", "AudioFrameClassification", **NAMES)
    with pytest.raises(InputError, match=r"threshold is .*, expected a number between 0 and 1"):
        model.diarize(sounds()[0], threshold=threshold)


def test_commands(case_of, tmp_path):
    paths = [write_wav(tmp_path / f"{number}.wav", sounds()[number]) for number in (4, 5)]
    _, _, model = case_of("wav2vec2", "AudioFrameClassification", **NAMES)
    arguments = ["diarize", str(model.folder), *map(str, paths), "--threshold", "0.4", "--json"]
    lines = CliRunner().invoke(main, arguments).stdout.splitlines()
    records = [json.loads(line) for line in lines]
    assert [record["sound"] for record in records] == [str(path) for path in paths]
    assert records[0]["turns"] == [
        turn | {"score": pytest.approx(turn["score"], abs=1e-4)}
        for turn in model.diarize(paths[0], threshold=0.4)
    ]
    _, _, model = case_of("wav2vec2", "XVector", **TIME_DELAYS)
    output = tmp_path / "vectors.npy"
    arguments = ["embed-speaker", str(model.folder), *map(str, paths), "--output", str(output)]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    np.testing.assert_allclose(np.load(output), model.embed_speaker(paths), atol=1e-6)
