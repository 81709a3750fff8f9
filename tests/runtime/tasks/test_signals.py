"""From a file to a model's numbers: what a user does with images and sounds, against transformers."""

import json
import shutil
import wave
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers.rows import HEAR, OTHERS, Row
from PIL import Image
from tokenizers import AddedToken, Tokenizer

from txexport.cli.main import main
from txexport.errors import InputError
from txexport.exporter import export
from txexport.runtime import load
from txexport.runtime.generation import scheduler
from txexport.runtime.tasks import speech_recognition
from txexport.runtime.tasks.whisper import decoding

SETTINGS = {"size": {"height": 30, "width": 30}, "do_center_crop": False}


def row(model_type: str, task: str):
    return next(row for row in OTHERS if row.model_type == model_type and row.task == task)


def copy(checkpoint: Path, folder: Path) -> Path:
    """The checkpoint in a folder of the test's own, to which a processor may be added."""
    return Path(shutil.copytree(checkpoint, folder / "checkpoint"))


@pytest.fixture
def photograph(tmp_path):
    """An image file of odd size."""
    pixels = np.random.default_rng(5).integers(0, 256, (37, 53, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photograph.png")
    return tmp_path / "photograph.png"


def test_labels_of_an_image_file(checkpoint_of, photograph, tmp_path):
    folder = copy(checkpoint_of(row("vit", "image-classification")), tmp_path)
    processor = transformers.ViTImageProcessorPil(**SETTINGS)
    processor.save_pretrained(folder)
    export(folder, tmp_path / "out")
    model = load(tmp_path / "out")
    found = model.run(pixel_values=model.images.pixels(photograph))["logits"]
    original = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = original(**processor(Image.open(photograph), return_tensors="pt")).logits.numpy()
    assert np.abs(found - expected).max() < 1e-5


def test_texts_that_fit_an_image_file(checkpoint_of, photograph, tmp_path):
    folder = copy(checkpoint_of("clip"), tmp_path)
    processor = transformers.CLIPImageProcessorPil(**SETTINGS)
    processor.save_pretrained(folder)
    export(folder, tmp_path / "out")
    model = load(tmp_path / "out")
    ids = np.array([[5, 6, 310], [7, 310, 310]])
    mask = np.array([[1, 1, 1], [1, 1, 0]])
    vectors = model.run("text_model", input_ids=ids, attention_mask=mask)
    vectors |= model.run("vision_model", pixel_values=model.images.pixels(photograph))
    found = model.run("similarity_model", **vectors)["logits_per_image"]
    original = transformers.CLIPModel.from_pretrained(folder).eval()
    with torch.no_grad():
        pixels = processor(Image.open(photograph), return_tensors="pt")
        texts = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        expected = original(**texts, **pixels).logits_per_image.numpy()
    assert np.abs(found - expected).max() < 1e-5


def test_tokens_of_a_sound_file(checkpoint_of, tmp_path):
    heard = Row("whisper", "WhisperForConditionalGeneration", HEAR, "1 s", {"max_source_positions": 50})
    folder = copy(checkpoint_of(heard), tmp_path)
    extractor = transformers.WhisperFeatureExtractor(feature_size=11, chunk_length=1)
    extractor.save_pretrained(folder)
    sound = np.sin(np.arange(6000) / 7) * np.linspace(0.1, 0.9, 6000)
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16000, len(sound), "NONE", ""))
        file.writeframes((sound * 32767).astype("<i2").tobytes())
    export(folder, tmp_path / "out")
    model = load(tmp_path / "out")
    features = model.audio.features(tmp_path / "sound.wav")
    found = model.generate_ids(features, max_new_tokens=12, begin_suppress_tokens=None)[0]
    original = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    samples = (sound * 32767).astype("<i2") / 32768
    features = extractor(samples, sampling_rate=16000, return_tensors="pt").input_features
    tokens = [3]
    for _ in found:
        with torch.no_grad():
            logits = original(input_features=features, decoder_input_ids=torch.tensor([tokens])).logits
        tokens.append(int(logits[0, -1].argmax()))
    assert found == tokens[1:]
    assert len(found) > 1


def test_a_spectrogram_of_another_shape_is_one_line(bundle_of):
    model = load(bundle_of("whisper", "static"))
    with pytest.raises(InputError, match=r"a spectrogram is \(11, 7\), expected \(11, 42\)"):
        model.generate_ids([np.zeros((11, 7), np.float32)])


WHISPER = {
    "decoder_start_token_id": 3,
    "lang_to_id": {"<|en|>": 290, "<|fr|>": 291, "<|zh|>": 292},
    "task_to_id": {"transcribe": 293, "translate": 294},
    "no_timestamps_token_id": 295,
    "is_multilingual": True,
    "suppress_tokens": [7, 8, 220],
    "begin_suppress_tokens": [9, 300],
    "eos_token_id": 2,
    "pad_token_id": 1,
}


@pytest.fixture
def whisper(checkpoint_of, tmp_path):
    """A model that hears 1 s with the settings of a multilingual Whisper, its original, and two sounds."""
    many = Row("whisper", "WhisperForConditionalGeneration", HEAR, "many", {"max_source_positions": 50})
    folder = copy(checkpoint_of(many), tmp_path)
    transformers.WhisperFeatureExtractor(feature_size=11, chunk_length=1).save_pretrained(folder)
    original = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    original.generation_config = transformers.GenerationConfig(**WHISPER)
    original.generation_config.save_pretrained(folder)
    export(folder, tmp_path / "out")
    sounds = [np.sin(np.arange(n) / k) * 0.5 for n, k in ((6000, 7), (16000, 23))]
    return load(tmp_path / "out", device="cpu", threads=1), original, sounds


@pytest.mark.parametrize("language", ["fr", None])
@pytest.mark.parametrize("task", ["transcribe", "translate"])
def test_what_is_written_down_equals_transformers(task, language, whisper):
    model, original, sounds = whisper
    features = torch.from_numpy(model.audio.features(sounds))
    with torch.no_grad():
        expected = original.generate(features, language=language, task=task, max_new_tokens=12)
    wanted = [[token for token in row if token not in (1, 2) and token < 290] for row in expected.tolist()]
    texts = model.transcribe(sounds, language=language, task=task, max_new_tokens=12)
    assert texts == model.text.decode([row[1:] if row[0] == 3 else row for row in wanted])
    assert model.transcribe(sounds[0], language=language, task=task, max_new_tokens=12) == texts[0]


def test_max_length_of_a_text_is_as_transformers_counts_it(whisper):
    """There the tokens that a text begins with come on top."""
    model, original, sounds = whisper
    features = torch.from_numpy(model.audio.features(sounds[0]))
    for longest in (5, 100):  # the second is more than the model has room for
        with torch.no_grad():
            expected = original.generate(features, language="fr", max_length=longest, min_length=90)[
                0
            ].tolist()
        asked = speech_recognition.request(
            model.bundle, sounds[:1], language="fr", max_length=longest, min_length=90
        )
        (found,) = scheduler.finished(asked, 100)
        assert found.tokens == expected[-len(found.tokens) :]
        assert len(found.tokens) == min(longest, 40 - 4)
        assert len(expected) in (len(found.tokens), len(found.tokens) + 4)


def test_many_sounds_are_read_batch_by_batch(whisper, monkeypatch):
    model, _, sounds = whisper
    many, read, done = [*sounds, *sounds, sounds[1]], [], []
    expected = model.transcribe(many, max_new_tokens=8)
    encoded = decoding.encoded

    def record(request):
        read.append(len(request.inputs))
        return encoded(request)

    monkeypatch.setattr(decoding, "encoded", record)
    budget = 2 * (50 + 8)  # two sounds of 50 positions with 8 new tokens
    texts = model.transcribe(
        many, max_new_tokens=8, batch_tokens=budget, progress=lambda *at: done.append(at)
    )
    assert texts == expected
    assert read == [2, 2, 1]
    assert done == [(2, 5), (4, 5), (5, 5)]


def test_a_stream_of_sounds_makes_what_is_written_down(whisper):
    model, _, sounds = whisper
    texts = ["", ""]
    for place, piece in model.stream_many(sounds, language="fr", max_new_tokens=12):
        texts[place] += piece
    assert texts == model.transcribe(sounds, language="fr", max_new_tokens=12)
    for run in (model.generate, model.stream):
        with pytest.raises(InputError, match="for text translation models; for speech choose language"):
            list(run(sounds[0], tgt_lang="fr"))


def test_scores_of_a_sound_are_adjusted_too(whisper):
    model, _, sounds = whisper

    def only(tokens, scores):
        return np.where(np.arange(scores.shape[1]) == 40, scores, -np.inf)

    expected = model.text.decode([[40] * 5])[0]
    assert model.generate(sounds[0], logits_processor=only, max_new_tokens=5) == expected
    assert model.transcribe(sounds[0], logits_processor=only, max_new_tokens=5) == expected


def test_times_are_left_out_of_what_is_written_down(whisper):
    """A model may write them though it is told not to; as transformers' decode, whole and in pieces."""
    model, _, sounds = whisper
    file = model.folder / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.add_tokens([AddedToken(time) for time in ("<|0.00|>", "<|1.00|>", "<|29.98|>")])
    tokenizer.save(str(file))
    model = load(model.folder, device="cpu", threads=1, check=False)
    times = [tokenizer.token_to_id(time) for time in ("<|0.00|>", "<|1.00|>", "<|29.98|>")]
    words = tokenizer.encode("the cat sat", add_special_tokens=False).ids
    written = [times[0], *words, times[1], times[1], *words, times[2]]

    def only(tokens, scores):
        place = len(tokens[0]) - 4  # behind what a text begins with
        return np.where(np.arange(scores.shape[1]) == written[place], scores, -np.inf)

    options = {"logits_processor": only, "max_new_tokens": len(written), "language": "fr"}
    original = transformers.AutoTokenizer.from_pretrained(model.folder)
    expected = original.decode(written, skip_special_tokens=True)
    assert expected == 2 * tokenizer.decode(words)
    assert model.transcribe(sounds[0], **options) == expected
    assert "".join(piece for _, piece in model.stream_many(sounds[0], **options)) == expected
    assert model.generate(sounds[0], **options) == expected


def test_command_writes_down_a_file(whisper, tmp_path):
    model, _, _ = whisper
    samples = (np.sin(np.arange(6000) / 7) * 16000).astype("<i2")
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16000, len(samples), "NONE", ""))
        file.writeframes(samples.tobytes())
    command = ["transcribe", str(model.folder), str(tmp_path / "sound.wav"), "--language", "fr", "--json"]
    done = CliRunner().invoke(main, [*command, "--max-new-tokens", "8"])
    expected = model.transcribe(tmp_path / "sound.wav", language="fr", max_new_tokens=8)
    assert json.loads(done.output) == {"sound": str(tmp_path / "sound.wav"), "text": expected}


def test_no_option_that_a_checkpoint_asks_of_speech_in_vain_is_kept_silent(whisper, tmp_path):
    model, _, sounds = whisper
    settings = WHISPER | {"forced_decoder_ids": [[1, 290]], "penalty_alpha": 0.6, "return_timestamps": True}
    (model.folder / "generation_config.json").write_text(json.dumps(settings))
    model = load(model.folder, device="cpu", threads=1, check=False)
    with pytest.warns(UserWarning, match=r"ignores penalty_alpha=0\.6, return_timestamps=True$") as told:
        model.transcribe(sounds[0], max_new_tokens=2)
    assert [warning.filename for warning in told] == [__file__]


def test_one_sound_may_be_streamed_and_no_sound_is_one_line(whisper, tmp_path):
    model, _, sounds = whisper
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 6000, "NONE", ""))
        file.writeframes((sounds[0] * 32767).astype("<i2").tobytes())
    options = {"language": "fr", "max_new_tokens": 12}
    for sound in (tmp_path / "sound.wav", str(tmp_path / "sound.wav"), sounds[0]):
        pieces = list(model.stream_many(sound, **options))
        assert {place for place, _ in pieces} == {0}
        assert "".join(piece for _, piece in pieces) == model.transcribe(sound, **options)
    for call in (model.transcribe, model.generate, lambda sound: list(model.stream_many(sound))):
        with pytest.raises(InputError, match="a sound is 5, expected the path"):
            call(5)


def test_a_language_or_task_that_is_not_known_is_one_line(whisper, bundle_of):
    model, _, sounds = whisper
    with pytest.raises(InputError, match="language 'xx' is not known; expected one of en, fr, zh"):
        model.transcribe(sounds[0], language="xx")
    with pytest.raises(InputError, match="task 'sing' is not known"):
        model.transcribe(sounds[0], task="sing")
    with pytest.raises(InputError, match=r"is for text2text-generation .* --task automatic-speech"):
        load(bundle_of("bart", "static"), device="cpu").transcribe(sounds[0])
    with pytest.raises(InputError, match="at most"):
        list(model.stream_many([np.zeros(17_000)]))


@pytest.mark.parametrize("language", ["de", "", np.array([]), np.array([[1, 2]])], ids=repr)
def test_languages_of_texts_are_refused_for_speech(language, whisper):
    model, _, sounds = whisper
    with pytest.raises(InputError, match="src_lang and tgt_lang are for text translation models"):
        model.generate(sounds[0], tgt_lang=language)
