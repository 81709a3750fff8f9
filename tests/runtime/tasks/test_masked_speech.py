"""Texts of sounds by encoders and decoders with a mask between them, beside transformers' pipelines."""

import numpy as np
import pytest
import transformers
from click.testing import CliRunner
from helpers.speech import (
    odd_recordings,
    save_speech_encoder_decoder,
    save_speech_to_text,
    write_wav,
)

from txexport import export, load
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime.generation.requests import request_of
from txexport.runtime.generation.running_batch import RunningBatch, rows_of

pytestmark = pytest.mark.filterwarnings("ignore:max_new_tokens=.* overrides max_length")

SOUNDS = odd_recordings()
# Padding's token has a position of its own in Speech2Text's decoder, and random weights may choose it.
SETTINGS = {"max_length": 9, "suppress_tokens": [1]}
SAVE = {"speech_to_text": save_speech_to_text, "speech-encoder-decoder": save_speech_encoder_decoder}


@pytest.fixture(scope="module", params=[(kind, cache) for kind in SAVE for cache in ("static", "dynamic")])
def pair(request, tmp_path_factory):
    """A model, and the pipeline of its original."""
    kind, cache = request.param
    folder = tmp_path_factory.mktemp("speech")
    SAVE[kind](folder / "in", **SETTINGS)
    export(folder / "in", folder / "out", cache=cache)
    pipe = transformers.pipeline("automatic-speech-recognition", model=str(folder / "in"), device="cpu")
    return load(folder / "out", device="cpu", threads=1), pipe


def expected_text(pipe, sound: np.ndarray, **options) -> str:
    """The text of the pipeline for one sound."""
    raw = {"raw": sound.copy(), "sampling_rate": 16000}
    return pipe(raw, generate_kwargs={"num_beams": 1, "do_sample": False} | options)["text"]


@pytest.mark.parametrize("options", [{}, {"num_beams": 5}], ids=str)
def test_texts_of_sounds_equal_the_pipelines(options, pair):
    """Of eight sounds of odd lengths in one call, each of which transformers reads alone."""
    model, pipe = pair
    expected = [expected_text(pipe, sound, **options) for sound in SOUNDS]
    assert len({*expected}) > 3
    assert model.transcribe(SOUNDS, **options) == expected
    assert model.transcribe(SOUNDS[1], **options) == expected[1]


def test_a_file_and_a_stream(pair, tmp_path):
    model, _ = pair
    path = write_wav(tmp_path / "sound.wav", SOUNDS[2])
    text = model.transcribe(path)
    assert text
    assert "".join(model.stream(path, suppress_tokens=[1])) == text
    assert [*model.stream_transcript(path)] == [text]


def test_the_command_transcribes(pair, tmp_path):
    model, _ = pair
    path = write_wav(tmp_path / "sound.wav", SOUNDS[3])
    result = CliRunner().invoke(main, ["transcribe", str(model.bundle.folder), str(path)])
    assert (result.exit_code, result.stdout) == (0, model.transcribe(path) + "\n")


def features(model) -> list[np.ndarray]:
    """The features or samples of each sound."""
    return [model.audio.features(sound)[0] for sound in SOUNDS]


def test_arrays_of_several_lengths_are_decoded_in_one_batch(pair):
    """As each alone: their encoder reads no padding."""
    model, _ = pair
    single = [model.generate_ids([one])[0] for one in features(model)]
    assert len({*map(tuple, single)}) > 3
    assert model.generate_ids(features(model)) == single


def test_sounds_come_and_go_in_one_running_batch(pair):
    """A mask hides the padding of shorter ones, so that all are one group."""
    model, _ = pair
    expected = [model.generate_ids([one])[0] for one in features(model)]
    rows = [rows_of(request_of(model.bundle, [one], None, {})) for one in features(model)]
    batch, groups, most = RunningBatch(model.bundle), 0, 0
    batch.add([row for [row] in rows])
    while batch.busy:
        batch.step()
        groups = max(groups, len(batch.groups))
        most = max(most, *(len(group.rows) for group in batch.groups), 0)
    assert [row.error for [row] in rows] == [None] * len(rows)
    assert [row.result.tokens for [row] in rows] == expected
    static = model.bundle.manifest.cache == "static"
    assert (groups == 1 and most > 3) or not static


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"timestamps": "word"}, "timestamps is an option of Whisper and CTC models, and this is neither"),
        ({"language": "fr"}, "language is 'fr', but this model has no token of a language"),
        ({"task": "translate"}, "task is 'translate', expected 'transcribe' or None"),
    ],
)
def test_options_of_other_models_are_one_line(options, line, pair):
    with pytest.raises(InputError, match=line):
        pair[0].transcribe(SOUNDS[0], **options)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """A Speech2Text that translates into several languages, and the pipeline of its original."""
    folder = tmp_path_factory.mktemp("languages")
    save_speech_to_text(folder / "in", languages=True, **SETTINGS)
    export(folder / "in", folder / "out")
    pipe = transformers.pipeline("automatic-speech-recognition", model=str(folder / "in"), device="cpu")
    return load(folder / "out", device="cpu", threads=1), pipe


@pytest.mark.parametrize("language", ["fr", "de"])
def test_a_language_is_the_first_token(language, several):
    model, pipe = several
    token = pipe.tokenizer.lang_code_to_id[language]
    expected = [expected_text(pipe, sound, forced_bos_token_id=token) for sound in SOUNDS[:4]]
    assert model.transcribe(SOUNDS[:4], language=language) == expected
    assert model.transcribe(SOUNDS[:4]) != expected


def test_another_language_is_one_line(several):
    line = "language is 'en', expected one of de, es, fr, it, nl, pt, ro, ru; or leave it out"
    with pytest.raises(InputError, match=line):
        several[0].transcribe(SOUNDS[0], language="en")


def test_a_sound_longer_than_the_positions_is_one_line(several):
    """300 vectors of 4 frames are 12 s."""
    model, _ = several
    long = np.random.default_rng(0).standard_normal(160 * 1201 + 400).astype(np.float32)
    line = "a sound of 1,202 frames has 301 vectors, but the model has 300 positions; shorten it"
    with pytest.raises(InputError, match=line):
        model.transcribe(long)
    with pytest.raises(InputError, match=line):
        model.generate_ids([np.zeros((1202, 80), np.float32)])
    assert isinstance(model.transcribe(long[:-320]), str)


def test_arrays_of_another_shape_are_one_line(several):
    model, _ = several
    for wrong in (np.zeros((9, 79)), np.zeros(80), np.zeros((0, 80))):
        with pytest.raises(InputError, match=r"a spectrogram is of shape .* expected \(1 or more, 80\)"):
            model.generate_ids([wrong])
    with pytest.raises(InputError, match="a spectrogram is not an array of numbers"):
        model.generate_ids(["sound.wav"])


def test_without_a_mask_each_length_has_a_batch_of_its_own(tmp_path):
    """A checkpoint whose extractor makes no mask has a decoder without one, as its original."""
    save_speech_encoder_decoder(tmp_path / "in", masked=False, **SETTINGS)
    export(tmp_path / "in", tmp_path / "out")
    model = load(tmp_path / "out", device="cpu", threads=1)
    assert "encoder_attention_mask" not in model.bundle.step.inputs
    pipe = transformers.pipeline("automatic-speech-recognition", model=str(tmp_path / "in"), device="cpu")
    assert model.transcribe(SOUNDS) == [expected_text(pipe, sound) for sound in SOUNDS]
