"""Stacked filter banks against transformers' extractor, number by number."""

import json
from itertools import pairwise

import numpy as np
import pytest
import tiny_checkpoint
import transformers
from helpers.speech import LETTERS, recordings

import txexport
from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime.preprocessing.extractors import filter_bank, read_extractor

SETTINGS = [{}, {"padding_value": 1.0}, {"stride": 3, "num_mel_bins": 40, "feature_size": 40}]
LONG = [sound for sound in recordings() if sound.size >= 720]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_numbers_equal_the_original_s(settings, tmp_path):
    """Alone and in batches of several lengths, with the mask."""
    original = transformers.SeamlessM4TFeatureExtractor(**settings)
    original.save_pretrained(tmp_path)
    extractor = read_extractor(tmp_path)
    assert extractor.rate == original.sampling_rate
    frames = [np.resize(LONG[1], 720 + 160 * count) for count in range(4)]  # odd and even numbers
    for sounds in [*([sound] for sound in LONG + frames), *map(list, pairwise(LONG)), LONG + frames]:
        expected = original(sounds, sampling_rate=extractor.rate, return_tensors="np")
        result = extractor.inputs(sounds)
        np.testing.assert_array_equal(result["input_features"], expected["input_features"])
        np.testing.assert_array_equal(result["attention_mask"], expected["attention_mask"])
        np.testing.assert_array_equal(extractor.features(sounds), expected["input_features"])


def test_text_is_that_of_the_pipeline(tmp_path):
    """Of recordings with an odd number of frames too, whose last vector is half padding."""
    folder = tmp_path / "in"
    tiny_checkpoint.save(folder, "wav2vec2-bert", feature_projection_input_dim=160)
    (folder / "vocab.json").write_text(json.dumps({text: number for number, text in enumerate(LETTERS)}))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"))
    original = transformers.SeamlessM4TFeatureExtractor(padding_value=1.0)
    transformers.Wav2Vec2BertProcessor(original, tokenizer).save_pretrained(folder)
    txexport.export(folder, tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu")
    pipeline = transformers.pipeline("automatic-speech-recognition", model=str(folder))
    cut = [LONG[1][: 720 + 160 * count] for count in range(5)]
    for sound in LONG + cut:
        answer = pipeline(sound, return_timestamps="word")
        transcript = model.transcribe(sound, timestamps="word", chunk_length_s=0)
        assert transcript.text == answer["text"]
        timed = [(word.start, word.end, word.text) for word in transcript.words]
        assert timed == [(*chunk["timestamp"], chunk["text"]) for chunk in answer["chunks"]]


def test_a_long_recording_is_computed_in_pieces(tmp_path, monkeypatch):
    """With the same numbers as in one piece."""
    transformers.SeamlessM4TFeatureExtractor().save_pretrained(tmp_path)
    extractor = read_extractor(tmp_path)
    expected = extractor.features(LONG[2])
    for count in (1, 7, 98):
        monkeypatch.setattr(filter_bank, "AT_ONCE", count)
        np.testing.assert_array_equal(extractor.features(LONG[2]), expected)


def test_a_sound_of_less_than_two_frames(tmp_path):
    """The original divides by 0: a variance of one frame."""
    transformers.SeamlessM4TFeatureExtractor().save_pretrained(tmp_path)
    extractor = read_extractor(tmp_path)
    assert extractor.features(np.sin(np.arange(560, dtype=np.float32))).shape == (1, 1, 160)
    with pytest.raises(InputError, match="559 samples long at 16000 Hz, expected at least 560"):
        extractor.features(np.zeros(559, np.float32))


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({"padding_side": "left"}, UnsupportedError, "padding_side 'left' is not supported"),
        ({"stride": 1}, UnsupportedError, "stride is 1 and sampling_rate 16000, expected 2 or more"),
        ({"stride": 2.5}, BundleError, "stride is 2.5, expected a whole number from 1 to 1024"),
        ({"num_mel_bins": 10**9}, BundleError, "num_mel_bins is 1000000000, expected a whole number"),
        ({"sampling_rate": 0}, BundleError, "sampling_rate is 0, expected a whole number"),
        ({"padding_value": "x"}, BundleError, "padding_value is 'x', expected a number"),
        ({"padding_value": float("nan")}, BundleError, "padding_value is nan, expected a number"),
    ],
    ids=str,
)
def test_settings_that_are_refused(values, kind, message, tmp_path):
    transformers.SeamlessM4TFeatureExtractor().save_pretrained(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    with pytest.raises(kind, match=message):
        read_extractor(tmp_path)
