"""Filter banks against transformers' extractor of AST, which makes them in NumPy."""

import json

import numpy as np
import pytest
import transformers
from transformers.utils import is_speech_available

from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime.preprocessing.extractors.filter_bank import FilterBank

FILE = "preprocessor_config.json"
SETTINGS = {
    "as it is": {},
    "fewer bands": {"num_mel_bins": 17, "max_length": 40},
    "another rate": {"sampling_rate": 22050, "max_length": 50},
    "another mean": {"mean": -1.5, "std": 2.25, "max_length": 60},
    "not normalised": {"do_normalize": False, "max_length": 60},
}


def sounds() -> list[np.ndarray]:
    rng, time = np.random.default_rng(0), np.arange(9000) / 16000
    made = [
        0.3 * rng.standard_normal(6000),
        np.sin(5000 * time),
        np.zeros(700),
        0.4 + 1e-4 * np.cos(900 * time),
    ]
    made += [rng.uniform(-1, 1, length) for length in (400, 401, 559, 560)]
    return [sound.astype(np.float32) for sound in made]


@pytest.mark.skipif(is_speech_available(), reason="with torchaudio transformers has that make them")
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_features_equal_the_originals(settings, tmp_path):
    extractor = transformers.ASTFeatureExtractor(**settings)
    extractor.save_pretrained(tmp_path)
    bank = FilterBank(tmp_path)
    found = bank.features(sounds(), truncate=True)
    expected = extractor(sounds(), sampling_rate=bank.rate, return_tensors="np")["input_values"]
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype == np.float32
    assert np.abs(found - expected).max() < 1e-5


def test_a_sound_is_at_its_rate_and_no_longer_than_the_model(tmp_path):
    transformers.ASTFeatureExtractor(max_length=40).save_pretrained(tmp_path)
    bank = FilterBank(tmp_path)
    time = np.arange(6800) / 16000
    slow, fast = (np.sin(700 * np.arange(count) / rate) for count, rate in ((6400, 16000), (3200, 8000)))
    assert (
        np.abs(bank.features(slow)[:, 1:30] - bank.features(fast, rate=8000)[:, 1:30])[..., 5:40].max() < 0.05
    )
    assert bank.features(time[:6799]).shape == (1, 40, 128)
    with pytest.raises(InputError, match=r"a sound is 0\.42 s long, .* cut it with truncate=True"):
        bank.features(time)
    assert np.array_equal(bank.features(time, truncate=True), bank.features(time[:6640]))
    with pytest.raises(InputError, match="a sound is 399 samples long at 16000 Hz, expected at least 400"):
        bank.features(time[:399])
    with pytest.raises(InputError, match="no sound was given"):
        bank.features([])


@pytest.mark.parametrize(
    ("values", "kind", "said"),
    [
        (
            {"feature_extractor_type": "WhisperFeatureExtractor"},
            UnsupportedError,
            "expected ASTFeatureExtractor",
        ),
        ({"num_mel_bins": "x"}, BundleError, "num_mel_bins is 'x', expected a whole number from 1"),
        ({"max_length": 0}, BundleError, "max_length is 0, expected a whole number from 1"),
        ({"max_length": 10**9}, BundleError, "expected a rate from 1000, and fewer numbers"),
        ({"sampling_rate": 500}, BundleError, "sampling_rate 500, .* expected a rate from 1000"),
        ({"std": 0}, BundleError, "std 0, expected true or false, a number, and one above 0"),
        ({"mean": "x"}, BundleError, "mean 'x' and std"),
        ({"do_normalize": 1}, BundleError, "do_normalize is 1, mean"),
    ],
    ids=str,
)
def test_settings_that_are_none_are_named(values, kind, said, tmp_path):
    transformers.ASTFeatureExtractor().save_pretrained(tmp_path)
    file = tmp_path / FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    with pytest.raises(kind, match=said):
        FilterBank(tmp_path)
