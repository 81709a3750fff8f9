"""Normalised waveforms against transformers' extractor."""

import json

import numpy as np
import pytest
import transformers
from helpers.speech import recordings
from transformers.models.auto.feature_extraction_auto import FEATURE_EXTRACTOR_MAPPING_NAMES

from txexport.errors import BundleError, UnsupportedError
from txexport.runtime.preprocessing.extractors import read_extractor
from txexport.runtime.preprocessing.preprocessor import OF_MODEL

SETTINGS = [{}, {"do_normalize": False}, {"sampling_rate": 8000}, {"return_attention_mask": True}]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_samples_equal_the_original(settings, tmp_path):
    original = transformers.Wav2Vec2FeatureExtractor(**settings)
    original.save_pretrained(tmp_path)
    extractor = read_extractor(tmp_path)
    assert extractor.rate == original.sampling_rate
    for sound in [*recordings(), np.full(999, 0.4, np.float32) + 1e-4 * recordings()[5][:999]]:
        expected = original(sound, sampling_rate=extractor.rate, return_tensors="np")["input_values"]
        np.testing.assert_array_equal(extractor.features(sound), expected)


@pytest.mark.parametrize("settings", [{}, {"do_normalize": False}, {"padding_value": -1.5}], ids=str)
def test_batches_with_a_mask_equal_the_original(settings, tmp_path):
    original = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True, **settings)
    original.save_pretrained(tmp_path)
    extractor = read_extractor(tmp_path)
    for sounds in (recordings(), recordings()[:1], recordings()[3:6]):
        expected = original(sounds, sampling_rate=16_000, padding=True, return_tensors="np")
        inputs = extractor.inputs(sounds)
        assert {name: array.dtype for name, array in inputs.items()} == {
            "input_values": np.float32,
            "attention_mask": np.int64,
        }
        for name, array in inputs.items():
            np.testing.assert_array_equal(array, expected[name])
        np.testing.assert_array_equal(extractor.features(sounds), inputs["input_values"])


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ({"padding_side": "left"}, UnsupportedError, "padding_side 'left' is not supported"),
        ({"feature_size": 2}, UnsupportedError, "feature_size 2 is not supported"),
        ({"sampling_rate": 0}, BundleError, "sampling_rate is 0 and do_normalize True, expected"),
        ({"do_normalize": 1}, BundleError, "do_normalize 1, expected"),
        ({"return_attention_mask": 3}, BundleError, "return_attention_mask is 3, expected true or false"),
        ({"padding_value": "0"}, BundleError, "padding_value is '0', expected a number"),
        ({"padding_value": 1e99}, BundleError, "padding_value is 1e\\+99, expected a number"),
        (
            {"feature_extractor_type": "Other"},
            UnsupportedError,
            "Other is not supported; expected one",
        ),
    ],
    ids=str,
)
def test_settings_that_are_refused(values, kind, message, tmp_path):
    transformers.Wav2Vec2FeatureExtractor().save_pretrained(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    with pytest.raises(kind, match=message):
        read_extractor(tmp_path)


@pytest.mark.parametrize("model_type", OF_MODEL)
def test_a_file_without_a_class_is_of_the_model_type(model_type, tmp_path):
    """As files of the first releases are; transformers reads the class from config.json."""
    kind = FEATURE_EXTRACTOR_MAPPING_NAMES[model_type]
    settings = {"truncation": "rand_trunc"} if kind == "ClapFeatureExtractor" else {}
    getattr(transformers, kind)(**settings).save_pretrained(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    settings = json.loads(file.read_text())
    assert settings.pop("feature_extractor_type") == kind == read_extractor(tmp_path).kind
    file.write_text(json.dumps(settings))
    with pytest.raises(UnsupportedError, match="feature extractor None is not supported"):
        read_extractor(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    assert read_extractor(tmp_path).kind == kind
