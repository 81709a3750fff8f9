"""Texts and vectors of sounds, beside transformers' pipeline and model."""

import json
import wave

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from click.testing import CliRunner

import txexport
from txexport.cli.main import main
from txexport.errors import InputError

LENGTHS = (8000, 7999, 5003, 4001, 3999, 2600, 977, 401, 37)
TEXTS, TEMPLATE = ["a dog", "rain on the roof", "an engine", "Ö"], "This is a sound of {}."


def sounds() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    rows = [
        np.sin(np.arange(length) / (3 + number)) * 0.4 + 0.1 * rng.standard_normal(length)
        for number, length in enumerate(LENGTHS)
    ]
    return [sound.astype(np.float32) for sound in rows]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clap")
    tiny_checkpoint.save(folder / "in", "clap")
    transformers.ClapFeatureExtractor(**tiny_checkpoint.CLAP_SOUNDS).save_pretrained(folder / "in")
    assert txexport.export(folder / "in", folder / "out").task == "zero-shot-audio-classification"
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return txexport.load(folder / "out", device="cpu")


@pytest.fixture(scope="module")
def tokenizer(folder):
    return transformers.AutoTokenizer.from_pretrained(folder / "in")


def test_match_equals_the_pipeline(folder, model, tokenizer):
    judge = transformers.pipeline(
        "zero-shot-audio-classification",
        model=transformers.ClapModel.from_pretrained(folder / "in"),
        feature_extractor=transformers.ClapFeatureExtractor.from_pretrained(folder / "in"),
        tokenizer=tokenizer,
        device="cpu",
    )
    progress: list = []
    answers = model.match_audio(
        sounds(), TEXTS, template=TEMPLATE, batch_size=4, progress=lambda *counts: progress.append(counts)
    )
    for ours, sound in zip(answers, sounds(), strict=True):
        theirs = judge(sound, candidate_labels=TEXTS, hypothesis_template=TEMPLATE)
        assert [one["label"] for one in ours] == [one["label"] for one in theirs]
        assert [one["score"] for one in ours] == pytest.approx([one["score"] for one in theirs], abs=1e-5)
    assert progress == [(4, 9), (8, 9), (9, 9)]
    assert model.match_audio([], TEXTS) == []
    single = model.match_audio(sounds()[4], TEXTS, template=TEMPLATE)
    assert [one["score"] for one in single] == pytest.approx([one["score"] for one in answers[4]], abs=1e-6)


def test_vectors_equal_the_original(folder, model, tokenizer):
    original = transformers.ClapModel.from_pretrained(folder / "in").eval()
    extractor = transformers.ClapFeatureExtractor.from_pretrained(folder / "in")
    features = extractor(sounds(), sampling_rate=8000, return_tensors="pt")["input_features"]
    batch = tokenizer(TEXTS, return_tensors="pt", padding=True, return_token_type_ids=False)
    with torch.no_grad():
        wanted = original(**batch, input_features=features)
    assert np.abs(model.embed_audio(sounds()) - wanted.audio_embeds.numpy()).max() < 1e-5
    assert np.abs(model.embed(TEXTS) - wanted.text_embeds.numpy()).max() < 1e-5
    assert np.array_equal(model.embed_audio(sounds()[0]), model.embed_audio(sounds()[:1])[0])
    assert model.embed_audio([]).shape == (0, 22)


def test_what_is_wrong_is_one_line(model):
    with pytest.raises(InputError, match="template 'a cat', expected texts"):
        model.match_audio(sounds(), TEXTS, template="a cat")
    with pytest.raises(InputError, match="0 texts and template"):
        model.match_audio(sounds(), [])
    with pytest.raises(InputError, match="expected at most 1 s; shorten it, or cut it"):
        model.match_audio(np.zeros(8001, np.float32), TEXTS)
    assert len(model.match_audio(np.zeros(8001, np.float32), TEXTS, truncate=True)) == len(TEXTS)
    with pytest.raises(InputError, match=r"use match_audio\); classify_audio needs an export"):
        model.classify_audio(sounds())


def test_files_on_the_command_line(model, tmp_path):
    paths = [tmp_path / f"{number}.wav" for number in range(2)]
    for path, sound in zip(paths, sounds(), strict=False):
        with wave.open(str(path), "wb") as file:
            file.setparams((1, 2, 8000, len(sound), "NONE", ""))
            file.writeframes((sound * 32767).astype("<i2").tobytes())
    texts = [part for text in TEXTS for part in ("--text", text)]
    arguments = ["match-audio", str(model.folder), *map(str, paths), *texts, "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    for row, expected in zip(rows, model.match_audio(paths, TEXTS), strict=True):
        assert [one["label"] for one in row["labels"]] == [one["label"] for one in expected]
    output = tmp_path / "vectors.npy"
    result = CliRunner().invoke(
        main, ["embed-audio", str(model.folder), *map(str, paths), "--output", str(output)]
    )
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(np.load(output), model.embed_audio(paths), atol=1e-6)
