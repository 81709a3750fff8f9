"""Log-mel features against transformers' Whisper extractor, and what is read and resampled before them."""

import json
import struct
import wave

import numpy as np
import pytest
import transformers

from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime.preprocessing.audio import read_wav, resample
from txexport.runtime.preprocessing.extractors.log_mel import Audio

FILE = "preprocessor_config.json"
SETTINGS = {
    "as it is": {},
    "128 bands": {"feature_size": 128},
    "a short chunk": {"chunk_length": 3},
    "another rate": {"chunk_length": 2, "sampling_rate": 22050, "hop_length": 256, "n_fft": 512},
    "odd sizes": {"chunk_length": 2, "n_fft": 401, "hop_length": 161, "feature_size": 33},
    "no silence": {"chunk_length": 2, "padding_value": 0.25},
}


def judge(folder, **settings):
    """transformers' own extractor, its file saved in `folder`."""
    extractor = transformers.WhisperFeatureExtractor(**settings)
    extractor.save_pretrained(folder)
    return extractor


def tone(hertz: float, rate: int, count: int) -> np.ndarray:
    return np.sin(2 * np.pi * hertz * np.arange(count) / rate)


def sounds(rate: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(rate)
    made = {
        "noise": 0.3 * noise,
        "faint": 1e-4 * noise,
        "tone": tone(440, rate, rate + 77),
        "tone and noise": 0.3 * tone(1234.5, rate, rate) + 0.01 * noise,
        "high": tone(7000, rate, rate // 3),
        "click": np.eye(1, rate, 100)[0],
        "silence": np.zeros(rate),
        "one sample": np.ones(1),
        "full": 0.1 * rng.standard_normal(2 * rate),
    }
    return {name: samples.astype(np.float32) for name, samples in made.items()}


@pytest.mark.parametrize("name", SETTINGS)
def test_features(name, tmp_path):
    """Within float32's rounding of the float64 computation, and as near PyTorch's as its float32 comes."""
    extractor = judge(tmp_path, **SETTINGS[name])
    audio, rate = Audio(tmp_path), extractor.sampling_rate
    for kind, samples in sounds(rate).items():
        found = audio.features(samples)
        assert found.dtype == np.float32
        assert found.flags.c_contiguous
        padded = np.full(extractor.n_samples, extractor.padding_value, np.float32)
        padded[: samples.size] = samples
        wanted = extractor._np_extract_fbank_features([padded], "cpu")
        np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-7, err_msg=kind)
        torch = extractor(samples, sampling_rate=rate, return_tensors="np").input_features
        np.testing.assert_allclose(found, torch, rtol=0, atol=1e-4, err_msg=kind)


def test_a_batch_is_its_sounds(tmp_path):
    """Each row is clamped by its own loudest band, not by the batch's."""
    extractor = judge(tmp_path, chunk_length=2)
    rows = list(sounds(16000).values())
    found = Audio(tmp_path).features(rows)
    assert found.shape == (9, 80, 200)
    assert found.flags.c_contiguous
    wanted = extractor(rows, sampling_rate=16000, return_tensors="np").input_features
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)
    for samples, row in zip(rows, found, strict=True):
        np.testing.assert_array_equal(Audio(tmp_path).features(samples)[0], row)


def test_the_file_of_all_processors_counts(tmp_path):
    extractor = transformers.WhisperFeatureExtractor(chunk_length=2, feature_size=40)
    tokenizer = transformers.WhisperTokenizer(vocab={"a": 0, "<|endoftext|>": 1}, merges=[])
    transformers.WhisperProcessor(extractor, tokenizer).save_pretrained(tmp_path)
    assert not (tmp_path / FILE).exists()
    assert Audio(tmp_path).features(np.ones(5)).shape == (1, 40, 200)


def write_wav(path, data: bytes, channels: int, width: int, rate: int = 16000) -> None:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(data)


# Stored numbers of two channels, and the means of both by hand.
PCM = {
    8: (struct.pack("6B", 0, 0, 128, 128, 255, 129), [-1, 0, (127 + 1) / 256]),
    16: (struct.pack("<6h", -32768, -32768, 1, 2, 32767, 0), [-1, 1.5 / 32768, 32767 / 65536]),
    24: (
        bytes([0, 0, 128, 0, 0, 128, 1, 0, 0, 2, 0, 0, 255, 255, 127, 0, 0, 0]),
        [-1, 1.5 / 2**23, 0.5 - 2**-24],
    ),
    32: (struct.pack("<6i", -(2**31), -(2**31), 2**20, 2**21, 2**30, 0), [-1, 1.5 * 2**20 / 2**31, 0.25]),
}


@pytest.mark.parametrize("bits", PCM)
def test_wav_files(bits, tmp_path):
    data, wanted = PCM[bits]
    write_wav(tmp_path / "stereo.wav", data, 2, bits // 8, 22050)
    samples, rate = read_wav(tmp_path / "stereo.wav")
    assert (samples.dtype, rate) == (np.float32, 22050)
    np.testing.assert_array_equal(samples, np.array(wanted, np.float32))
    write_wav(tmp_path / "mono.wav", data, 1, bits // 8)
    mono, rate = read_wav(str(tmp_path / "mono.wav"))
    assert (mono.size, rate) == (6, 16000)
    np.testing.assert_array_equal(mono.reshape(3, 2).astype(np.float64).mean(1).astype(np.float32), samples)


def test_a_file_has_the_features_of_its_samples(tmp_path):
    judge(tmp_path, chunk_length=2)
    audio, path = Audio(tmp_path), tmp_path / "tone.wav"
    data = (tone(300, 44100, 44100) * 30000).astype("<i2")
    write_wav(path, data.tobytes(), 1, 2, 44100)
    samples = data.astype(np.float32) / 32768
    wanted = audio.features(resample(samples, 44100, 16000))
    np.testing.assert_array_equal(audio.features(path), wanted)
    np.testing.assert_array_equal(audio.features([str(path), samples[:8]], rate=44100)[:1], wanted)


RATES = [(44100, 16000), (48000, 16000), (22050, 16000), (8000, 16000), (11025, 16000), (16000, 22050)]


@pytest.mark.parametrize(("rate", "target"), RATES)
def test_resampling_keeps_tones(rate, target):
    """A tone is the same tone at the other rate: amplitude, frequency and phase."""
    for part in (0.003, 0.1, 0.5, 0.8, 0.91):
        hertz = part * min(rate, target) / 2
        found = resample(tone(hertz, rate, rate // 4), rate, target)
        assert found.dtype == np.float32
        assert found.size == -(-(rate // 4) * target // rate)
        middle = slice(target // 32, found.size - target // 32)
        wanted = tone(hertz, target, found.size)
        np.testing.assert_allclose(found[middle], wanted[middle], rtol=0, atol=1e-4)


def test_resampling_drops_what_would_alias():
    for hertz in (8050, 8500, 10000, 15000, 20000):
        found = resample(tone(hertz, 44100, 22050), 44100, 16000)
        assert 20 * np.log10(np.abs(found[1000:-1000]).max()) < -90


def test_resampling_makes_no_images():
    found = resample(tone(3600, 8000, 8000), 8000, 16000)[2000:-2000]
    spectrum = np.abs(np.fft.rfft(found * np.kaiser(found.size, 14)))
    image = spectrum[np.fft.rfftfreq(found.size, 1 / 16000) > 4000].max()
    assert 20 * np.log10(image / spectrum.max()) < -90


def test_resampling_meets_silence_at_both_ends():
    """A sound within silence comes out as it does alone."""
    samples = np.random.default_rng(0).standard_normal(1000)
    found = resample(np.pad(samples, 441 * 3), 44100, 16000)
    np.testing.assert_allclose(found[480 : 480 + 363], resample(samples, 44100, 16000), rtol=0, atol=1e-6)


def test_resampling_of_little():
    assert resample(np.ones(1), 44100, 16000).shape == (1,)
    assert resample(np.ones(3), 8000, 16000).shape == (6,)
    same = np.array([0.1, 0.2])
    np.testing.assert_array_equal(resample(same, 16000, 16000), same.astype(np.float32))
    np.testing.assert_allclose(resample(np.ones(4000), 16001, 16000)[200:-200], 1, rtol=0, atol=1e-6)


def test_a_sound_may_fill_the_chunk_and_no_more(tmp_path):
    extractor = judge(tmp_path, chunk_length=1)
    audio = Audio(tmp_path)
    assert (audio.rate, audio.samples) == (16000, 16000)
    whole = tone(440, 44100, 44101)
    with pytest.raises(InputError, match=r"a sound is 1.00 s long, expected at most 1 s; cut it"):
        audio.features(whole, rate=44100)
    with pytest.raises(InputError, match=r"a sound is 2.50 s long"):
        audio.features([whole[:5], np.zeros(40000)])
    with pytest.raises(InputError, match=r"expected at most 1 s; shorten it, or cut it with truncate=True"):
        audio.features(np.zeros(40000), truncate=False)
    long = tone(440, 16000, 40000).astype(np.float32)
    wanted = extractor(long, sampling_rate=16000, return_tensors="np").input_features
    np.testing.assert_allclose(audio.features(long, truncate=True), wanted, rtol=0, atol=1e-4)
    cut = tone(440, 16000, 16000)
    wanted = extractor(cut, sampling_rate=16000, return_tensors="np").input_features
    np.testing.assert_allclose(audio.features(cut), wanted, rtol=0, atol=1e-4)
    assert audio.features(whole[:-1], rate=44100).shape == (1, 80, 100)


def damaged(folder):
    write_wav(folder / "whole.wav", bytes(2000), 2, 2)
    whole = (folder / "whole.wav").read_bytes()
    (folder / "half.wav").write_bytes(whole[:1001])
    (folder / "head.wav").write_bytes(whole[:20])
    (folder / "text.wav").write_text("no sound at all, but longer than a header")
    (folder / "float.wav").write_bytes(whole[:20] + struct.pack("<H", 3) + whole[22:])
    (folder / "still.wav").write_bytes(whole[:24] + bytes(4) + whole[28:])
    return folder


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("half.wav", "half.wav is cut short: 957 of 2000 bytes"),
        ("head.wav", "head.wav is not a PCM WAV file: it ends too soon; convert it"),
        ("text.wav", "text.wav is not a PCM WAV file: file does not start with RIFF id; convert it"),
        ("float.wav", "float.wav is not a PCM WAV file: unknown format: 3; convert it"),
        ("still.wav", "still.wav has 16 bits at 0 Hz, expected"),
        ("gone.wav", "gone.wav cannot be read: .*No such file"),
        (np.zeros(5, np.int16), r"a sound is int16 \(5,\), expected floats \(N,\) between -1 and 1"),
        (np.zeros((2, 5)), r"a sound is float64 \(2, 5\), expected floats \(N,\)"),
        (np.zeros(0), "a sound has no samples"),
        (np.array([0.1, np.nan]), "or some that are not finite"),
        ([], "no sound was given"),
    ],
)
def test_what_is_no_sound(given, said, tmp_path):
    judge(tmp_path)
    damaged(tmp_path)
    with pytest.raises(InputError, match=said) as caught:
        Audio(tmp_path).features(tmp_path / given if isinstance(given, str) else given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        (
            {"feature_extractor_type": "Wav2Vec2FeatureExtractor"},
            UnsupportedError,
            "Wav2Vec2FeatureExtractor is not",
        ),
        ({"feature_extractor_type": None}, UnsupportedError, "feature extractor None is not supported"),
        ({"dither": 0.1}, UnsupportedError, "dither 0.1 is not supported"),
        ({"padding_side": "left"}, UnsupportedError, "padding_side 'left' is not supported"),
        ({"n_fft": 0}, BundleError, "n_fft is 0, expected a whole number from 1"),
        ({"hop_length": "160"}, BundleError, "hop_length is '160', expected a whole number"),
    ],
)
def test_settings_that_are_refused(settings, error, said, tmp_path):
    given = {"feature_extractor_type": "WhisperFeatureExtractor"} | settings
    (tmp_path / FILE).write_text(json.dumps(given))
    with pytest.raises(error, match=said):
        Audio(tmp_path)


@pytest.mark.parametrize("rate", [0, -1, 16000.5])
def test_a_rate_is_a_whole_number(rate, tmp_path):
    judge(tmp_path)
    with pytest.raises(InputError, match=f"a rate is {rate}, expected a whole number of Hz"):
        Audio(tmp_path).features(np.zeros(5), rate=rate)


def test_a_file_that_is_silent_means_the_defaults(tmp_path):
    extractor = transformers.WhisperFeatureExtractor()
    given = {"feature_extractor_type": "WhisperFeatureExtractor", "n_fft": None, "mel_filters": [[1.0]]}
    (tmp_path / FILE).write_text(json.dumps(given))
    samples = sounds(16000)["noise"]
    wanted = extractor(samples, sampling_rate=16000, return_tensors="np").input_features
    np.testing.assert_allclose(Audio(tmp_path).features(samples), wanted, rtol=0, atol=1e-5)
