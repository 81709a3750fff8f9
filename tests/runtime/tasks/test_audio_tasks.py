"""Labels of sounds, beside transformers' pipeline."""

import wave
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import tiny_checkpoint
import transformers

import txexport
from txexport.errors import InputError, UnsupportedError

NAMES = ("Speech", "Dog", "Rain on a roof", "Bell", "Engine", "Silence", "Owl")
LABELS = {"id2label": dict(enumerate(NAMES)), "label2id": {name: i for i, name in enumerate(NAMES)}}
CONFIGS = {
    "one of several": LABELS,
    "several at once": LABELS | {"problem_type": "multi_label_classification"},
    "one number": {"num_labels": 1, "problem_type": "regression"},
    "one label": {"num_labels": 1},
}


def sounds() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    made = [np.sin(np.arange(5000) / 7), 0.2 * rng.standard_normal(3000), rng.uniform(-1, 1, 900)]
    return [sound.astype(np.float32) for sound in made]


# How families hear: class, sizes of a quarter of a second or so, and the extractor that transformers has.
AST = "audio-spectrogram-transformer"
HEARD = {
    AST: ("ASTForAudioClassification", {}, {"num_mel_bins": 17, "max_length": 33}),
    "whisper": (
        "WhisperForAudioClassification",
        {"max_source_positions": 50, "classifier_proj_size": 26},
        {"feature_size": 11, "chunk_length": 1},
    ),
    "wav2vec2": ("Wav2Vec2ForSequenceClassification", {"classifier_proj_size": 26}, {}),
    "sew": ("SEWForSequenceClassification", {"classifier_proj_size": 26}, {}),
    "wavlm": (
        "WavLMForSequenceClassification",
        {"classifier_proj_size": 26, "use_weighted_layer_sum": True},
        {"return_attention_mask": True},
    ),
}
WAVEFORMS = ("wav2vec2", "sew", "wavlm")
EXTRACTORS = {AST: transformers.ASTFeatureExtractor, "whisper": transformers.WhisperFeatureExtractor}
EXTRACTORS |= dict.fromkeys(WAVEFORMS, transformers.Wav2Vec2FeatureExtractor)


@pytest.fixture(scope="module")
def case_of(tmp_path_factory):
    """A function from a family and config values to a checkpoint's folder and its model."""

    def get(name=AST, **config):
        folder = tmp_path_factory.mktemp("audio")
        architecture, sizes, settings = HEARD[name]
        tiny_checkpoint.save(folder / "in", name, architecture, **sizes, **config)
        EXTRACTORS[name](**settings).save_pretrained(folder / "in")
        assert txexport.export(folder / "in", folder / "out").task == "audio-classification"
        return folder / "in", txexport.load(folder / "out", device="cpu")

    return get


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("name", HEARD)
def test_labels_equal_the_pipeline(name, config, case_of):
    folder, model = case_of(name, **config)
    judge = transformers.pipeline("audio-classification", model=str(folder), device="cpu")
    told: list = []
    found = model.classify_audio(sounds(), batch_size=2, progress=lambda *counts: told.append(counts))
    for ours, sound in zip(found, sounds(), strict=True):
        theirs = judge(sound, top_k=5)
        assert [one["label"] for one in ours] == [one["label"] for one in theirs]
        assert [one["score"] for one in ours] == pytest.approx([one["score"] for one in theirs], abs=1e-5)
        assert all(one["score"] >= other["score"] for one, other in pairwise(ours))
    assert told == ([(1, 3), (2, 3), (3, 3)] if name in WAVEFORMS else [(2, 3), (3, 3)])
    assert model.classify_audio([]) == []


def test_a_file_one_sound_and_one_too_long(case_of, tmp_path):
    _, model = case_of(**LABELS)
    [sound, *_] = sounds()
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16000, len(sound), "NONE", ""))
        file.writeframes((sound * 32767).astype("<i2").tobytes())
    ours = model.classify_audio(tmp_path / "sound.wav", top_k=7)
    theirs = {one["label"]: one["score"] for one in model.classify_audio(sound, top_k=None)}
    assert {one["label"]: one["score"] for one in ours} == pytest.approx(theirs, abs=1e-2)
    assert len(ours) == len(theirs) == 7
    long = np.tile(sound, 3)
    with pytest.raises(InputError, match=r"a sound is 0\.94 s long, expected at most 0\.35 s"):
        model.classify_audio(long)
    assert len(model.classify_audio(long, truncate=True)) == 5
    _, whisper = case_of("whisper", **LABELS)
    long = np.tile(sound, 4)
    with pytest.raises(
        InputError, match=r"1\.25 s long, expected at most 1 s; shorten it, or cut it with tr"
    ):
        whisper.classify_audio(long)
    [one] = whisper.classify_audio([long], truncate=True)
    assert one == whisper.classify_audio(long[:16000])
    with pytest.raises(InputError, match=r"audio-classification \(use classify_audio\); classify needs"):
        model.classify("the cat")


def test_a_waveform_graph_is_not_fed_filter_banks(case_of):
    """AST's filter banks would broadcast or be refused by a shape; a waveform needs its own preprocessing."""
    _, model = case_of(**LABELS)
    session = model.sessions["model"]
    port = session.inputs["input_values"]
    waveform = replace(port, shape=("batch_size", "samples"))
    session.inputs = {"input_values": waveform}
    with pytest.raises(UnsupportedError, match=r"reads input_values \(batch_size, samples\), and the"):
        model.classify_audio(sounds())
    session.inputs = {"speech": replace(port, name="speech")}
    with pytest.raises(UnsupportedError, match=r"reads speech \(.*extractor makes input_values of 3"):
        model.classify_audio([])
