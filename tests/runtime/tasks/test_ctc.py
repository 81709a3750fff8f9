"""Transcripts of CTC models, beside transformers' pipeline."""

import json
import wave

import numpy as np
import pytest
import transformers
from click.testing import CliRunner
from helpers.speech import recordings, save_recogniser

import txexport
from txexport.cli.main import main
from txexport.errors import InputError


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ctc")
    save_recogniser(folder / "in")
    assert txexport.export(folder / "in", folder / "out").task == "automatic-speech-recognition"
    return folder / "in", txexport.load(folder / "out", device="cpu")


def test_texts_equal_the_pipeline(case):
    folder, model = case
    judge = transformers.pipeline("automatic-speech-recognition", model=str(folder), device="cpu")
    done: list = []
    texts = model.transcribe(recordings(), progress=lambda *counts: done.append(counts))
    assert texts == [judge(sound)["text"] for sound in recordings()]
    assert len({*texts}) > 5
    assert done[-1] == (8, 8)
    assert model.transcribe(recordings()[2]) == texts[2]
    assert model.transcribe([]) == []


def test_a_file_of_another_rate_is_resampled(case, tmp_path):
    _, model = case
    samples = (np.sin(np.arange(9000) / 7) * 16_000).astype("<i2")
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 8_000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    expected = model.audio.features(samples / np.float32(2**15), rate=8_000)
    assert expected.shape == (1, 18_000)
    np.testing.assert_array_equal(model.audio.features(tmp_path / "sound.wav"), expected)
    assert model.transcribe(tmp_path / "sound.wav")


def test_the_command_prints_the_same_texts(case, tmp_path):
    _, model = case
    files = []
    for number, sound in enumerate(recordings()[2:5]):
        files.append(tmp_path / f"{number}.wav")
        with wave.open(str(files[-1]), "wb") as file:
            file.setparams((1, 2, 16_000, 0, "NONE", ""))
            file.writeframes((sound * 2**14).astype("<i2").tobytes())
    command = ["transcribe", str(model.folder), *map(str, files), "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    texts = [json.loads(line)["text"] for line in result.stdout.splitlines()]
    assert texts == model.transcribe(files)
    assert len({*texts}) == 3
    result = CliRunner().invoke(main, [*command, "--language", "en"])
    assert result.exit_code == 2
    assert "language is an option of models that generate text" in result.output


def test_it_generates_and_streams_nothing(case):
    _, model = case
    for call in (model.generate, lambda sound: list(model.stream(sound))):
        with pytest.raises(InputError, match=r"\(use transcribe\); generate needs an export with --task"):
            call(recordings()[2])


def test_bad_inputs_are_named(case):
    _, model = case
    with pytest.raises(InputError, match="language is an option of models that generate text"):
        model.transcribe(recordings()[0], language="en")
    with pytest.raises(InputError, match=r"100 to 401 samples are in one batch, and the model has no mask"):
        model.audio.features(recordings()[:2])
    with pytest.raises(InputError, match="a sound has 20 samples at 16000 Hz, expected 30 or more"):
        model.transcribe(np.zeros(20, np.float32))
    with pytest.raises(InputError, match=r"is for automatic-speech-recognition \(use transcribe\); classify"):
        model.classify_audio(recordings()[0])
