"""Features of Speech2Text beside transformers': a model hears something else if one of these fails."""

import json

import numpy as np
import pytest
import transformers
from helpers.speech import recordings

from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime.preprocessing.extractors import read_extractor

HEARD = [sound for sound in recordings() if sound.size >= 560 and sound.std() > 0]
PLAIN = {"do_ceptral_normalize": False, "num_mel_bins": 40, "feature_size": 40}
needs_numpy = pytest.mark.skipif(
    transformers.utils.is_speech_available(), reason="torchaudio computes filter banks in another way"
)


@needs_numpy
@pytest.mark.parametrize(
    "settings",
    [{}, {"normalize_vars": False}, {"normalize_means": False}, PLAIN, {"padding_value": 0.5}],
    ids=str,
)
def test_features_are_those_of_transformers(settings, tmp_path):
    """Of each sound alone, and of all in a batch with their mask."""
    original = transformers.Speech2TextFeatureExtractor(**settings)
    original.save_pretrained(tmp_path)
    ours = read_extractor(tmp_path)
    assert len(HEARD) >= 5
    for sounds in (*HEARD, HEARD):
        expected = original(sounds, sampling_rate=16000, padding=True, return_tensors="np")
        computed = ours.inputs(sounds)
        assert computed.keys() == expected.keys()
        for name, array in computed.items():
            np.testing.assert_array_equal(array, expected[name])


def test_a_long_sound_is_computed_in_pieces(tmp_path):
    """More than 4096 frames, and one frame more than that."""
    transformers.Speech2TextFeatureExtractor(**PLAIN).save_pretrained(tmp_path)
    extractor = read_extractor(tmp_path)
    sound = np.random.default_rng(0).standard_normal(400 + 160 * 4100).astype(np.float32)
    features = extractor.features(sound)[0]
    assert len(features) == 4101
    for first in (0, 4095, 4096, 4100):
        frame = sound[160 * first : 160 * first + 400]
        np.testing.assert_array_equal(extractor.features(frame)[0, 0], features[first])


def test_silence_and_a_sound_too_short_are_one_line(tmp_path):
    transformers.Speech2TextFeatureExtractor().save_pretrained(tmp_path)
    extractor = read_extractor(tmp_path)
    with pytest.raises(InputError, match="a sound is 399 samples long at 16000 Hz, expected at least 400"):
        extractor.features(HEARD[0][:399])
    for sound in (HEARD[0][:559], np.zeros(5000, np.float32)):
        with pytest.raises(InputError, match=f"a sound of {sound.size:,} samples is silent, or too short"):
            extractor.features(sound)


@pytest.mark.parametrize(
    ("change", "error", "line"),
    [
        ({"num_mel_bins": 0}, BundleError, "num_mel_bins is 0, expected a whole number from 1"),
        ({"do_ceptral_normalize": 1}, BundleError, "do_ceptral_normalize 1, .* expected true or false"),
        ({"padding_value": "0"}, BundleError, "padding_value is '0', expected a number"),
        ({"sampling_rate": 8000}, UnsupportedError, "sampling_rate 8000 is not supported"),
        ({"dither": 1.0}, UnsupportedError, "dither 1.0 is not supported"),
        ({"padding_side": "left"}, UnsupportedError, "padding_side 'left' is not supported"),
    ],
)
def test_other_settings_are_one_line(change, error, line, tmp_path):
    transformers.Speech2TextFeatureExtractor().save_pretrained(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(error, match=line):
        read_extractor(tmp_path)
