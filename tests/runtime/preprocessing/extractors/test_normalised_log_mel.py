"""Normalised log-mel spectrograms against transformers' extractor."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
import transformers
from helpers.speech import recordings
from transformers.audio_utils import mel_filter_bank
from transformers.models.parakeet import feature_extraction_parakeet

from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime.preprocessing.extractors import normalised_log_mel, read_extractor

SETTINGS = [
    {},
    {"feature_size": 128, "preemphasis": None},
    {"sampling_rate": 8000, "hop_length": 80, "n_fft": 256, "win_length": 200, "preemphasis": 0.5},
]
NOISE = np.random.default_rng(1).standard_normal(20_000).astype(np.float32) / 9
LONG = [sound for sound in recordings() if sound.size >= 400]


class Double:
    """The module torch with float64 in place of float32.

    The original's float32 has a rounding of its own, which a band of little deviation multiplies.
    """

    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)

    def hann_window(self, *arguments, **options):
        """The window in float64."""
        return torch.hann_window(*arguments, **options, dtype=torch.float64)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_numbers_equal_the_original_s(settings, tmp_path, monkeypatch):
    """Alone and in batches of several lengths, with the mask."""
    original = transformers.ParakeetFeatureExtractor(**settings)
    original.save_pretrained(tmp_path)
    rate, bins = original.sampling_rate, original.n_fft // 2 + 1
    filters = mel_filter_bank(
        bins, original.feature_size, 0.0, rate / 2, rate, "slaney", "slaney", dtype=np.float64
    )
    original.mel_filters = torch.from_numpy(filters.T.copy())
    monkeypatch.setattr(feature_extraction_parakeet, "torch", Double())
    extractor = read_extractor(tmp_path)
    assert extractor.rate == original.sampling_rate
    cut = [NOISE[: 320 + 53 * count] for count in range(9)]
    for sounds in [*([sound] for sound in LONG + cut), *map(list, pairwise(LONG)), LONG + cut]:
        expected = original(sounds, sampling_rate=extractor.rate, return_tensors="np")
        result = extractor.inputs(sounds)
        np.testing.assert_array_equal(result["attention_mask"], expected["attention_mask"])
        np.testing.assert_allclose(result["input_features"], expected["input_features"], rtol=0, atol=1e-5)
        np.testing.assert_array_equal(extractor.features(sounds), result["input_features"])


def test_numbers_of_noise_equal_the_original_s_in_float32(tmp_path):
    original = transformers.ParakeetFeatureExtractor()
    original.save_pretrained(tmp_path)
    expected = original([NOISE, NOISE[:4000]], sampling_rate=16000, return_tensors="np")
    result = read_extractor(tmp_path).features([NOISE, NOISE[:4000]])
    np.testing.assert_allclose(result, expected["input_features"], rtol=0, atol=1e-4)


def test_a_long_recording_is_computed_in_pieces(tmp_path, monkeypatch):
    """With the same numbers as in one piece."""
    transformers.ParakeetFeatureExtractor().save_pretrained(tmp_path)
    extractor = read_extractor(tmp_path)
    expected = extractor.features(NOISE)
    for count in (1, 7, 124):
        monkeypatch.setattr(normalised_log_mel, "AT_ONCE", count * 512)
        np.testing.assert_allclose(extractor.features(NOISE), expected, rtol=0, atol=1e-6)


def test_a_sound_of_less_than_two_frames(tmp_path):
    """The original divides by 0: a variance of one frame."""
    transformers.ParakeetFeatureExtractor().save_pretrained(tmp_path)
    extractor = read_extractor(tmp_path)
    assert extractor.features(NOISE[:320]).shape == (1, 3, 80)
    with pytest.raises(InputError, match="319 samples long at 16000 Hz, expected at least 320"):
        extractor.features(NOISE[:319])


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({"padding_side": "left"}, UnsupportedError, "padding_side 'left' is not supported"),
        ({"padding_value": 1.0}, UnsupportedError, "padding_value 1.0 is not supported"),
        ({"hop_length": 0}, BundleError, "hop_length is 0, expected a whole number from 1"),
        ({"n_fft": 399}, BundleError, "n_fft 399, win_length 400, .* of at most n_fft"),
        ({"sampling_rate": 1999}, BundleError, "sampling_rate is 1999, .* expected 2000 or more"),
        ({"preemphasis": "x"}, BundleError, "preemphasis is 'x', expected a number from -1 to 1"),
    ],
    ids=str,
)
def test_settings_that_are_refused(values, kind, message, tmp_path):
    transformers.ParakeetFeatureExtractor().save_pretrained(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    with pytest.raises(kind, match=message):
        read_extractor(tmp_path)
