"""Log-mel spectrograms of repeated sounds against transformers' extractor of CLAP."""

import json

import numpy as np
import pytest
import transformers

from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime.preprocessing.extractors.repeated_log_mel import RepeatedLogMel

FILE = "preprocessor_config.json"
SHORT = {"max_length_s": 1, "sampling_rate": 8000, "hop_length": 100, "frequency_max": 3700}
SETTINGS = {
    "as it is": {},
    "short": SHORT,
    "fewer bands, from 50 Hz": SHORT | {"feature_size": 8, "frequency_min": 50, "fft_window_size": 400},
    "from 1100 Hz": SHORT | {"feature_size": 12, "frequency_min": 1100},
    "repeated and cut": SHORT | {"padding": "repeat"},
    "padded": SHORT | {"padding": "pad"},
}


def saved(folder, **settings):
    """The original's extractor, saved."""
    extractor = transformers.ClapFeatureExtractor(**{"truncation": "rand_trunc"} | settings)
    extractor.save_pretrained(folder)
    return extractor


def sounds() -> list[np.ndarray]:
    rng, time = np.random.default_rng(0), np.arange(8000) / 8000
    rows = [0.3 * rng.standard_normal(6000), np.sin(5000 * time), np.zeros(700)]
    rows += [rng.uniform(-1, 1, length) for length in (1, 399, 2500, 4000, 7999, 8000)]
    return [sound.astype(np.float32) for sound in rows]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_features_equal_the_originals(settings, tmp_path):
    theirs = saved(tmp_path, **settings)
    ours = RepeatedLogMel(tmp_path)
    features = ours.features(sounds())
    expected = np.stack(theirs(sounds(), sampling_rate=ours.rate)["input_features"])
    assert features.shape == expected.shape == (9, 1, ours.samples // ours.hop + 1, ours.filters.shape[1])
    assert features.dtype == expected.dtype == np.float32
    assert np.abs(features - expected).max() < 1e-4  # decibels


def test_a_long_sound_is_refused_or_cut(tmp_path):
    saved(tmp_path, **SHORT)
    ours, sound = RepeatedLogMel(tmp_path), np.random.default_rng(1).uniform(-1, 1, 8001)
    with pytest.raises(
        InputError, match=r"a sound is 1\.001 s long, expected at most 1 s; shorten it, or cut"
    ):
        ours.features(sound, truncate=False)
    assert np.array_equal(ours.features(sound, truncate=True), ours.features(sound[:8000]))
    with pytest.raises(InputError, match="no sound was given"):
        ours.features([])


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (
            {"feature_extractor_type": "ASTFeatureExtractor"},
            UnsupportedError,
            "expected ClapFeatureExtractor",
        ),
        ({"truncation": "fusion"}, UnsupportedError, "truncation 'fusion' and padding 'repeatpad' are not"),
        ({"truncation": None}, UnsupportedError, "truncation 'fusion'"),
        ({"padding": "x"}, UnsupportedError, "padding 'x' are not supported; expected rand_trunc, and"),
        ({"feature_size": "x"}, BundleError, "feature_size is 'x', expected a whole number from 1"),
        ({"hop_length": 0}, BundleError, "hop_length is 0, expected a whole number from 1"),
        ({"max_length_s": 10**9}, BundleError, "expected a shorter window, and fewer numbers"),
        ({"fft_window_size": 10**6}, BundleError, "fft_window_size 1000000; expected a shorter window"),
        ({"frequency_min": 20000}, BundleError, "frequency_min is 20000, frequency_max 14000 and"),
        ({"frequency_max": "x"}, BundleError, "frequency_max 'x' and sampling_rate 48000, expected rising"),
        ({"sampling_rate": 10**7}, BundleError, "sampling_rate 10000000, expected rising numbers of Hz"),
    ],
)
def test_settings_that_are_wrong_are_named(values, kind, message, tmp_path):
    saved(tmp_path)
    settings = json.loads((tmp_path / FILE).read_text()) | values
    (tmp_path / FILE).write_text(json.dumps(settings))
    with pytest.raises(kind, match=message):
        RepeatedLogMel(tmp_path)


def test_more_frames_than_the_model_s_image_holds(tmp_path):
    saved(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"audio_config": {"spec_size": 250}}))
    message = r"max_length_s and hop_length give 1001 frames, expected at most 750, for spec_size 250 and"
    with pytest.raises(BundleError, match=message):
        RepeatedLogMel(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"audio_config": {"spec_size": 256}}))
    assert RepeatedLogMel(tmp_path).samples == 480_000
