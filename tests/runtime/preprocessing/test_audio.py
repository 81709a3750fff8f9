"""Log-mel features against transformers' Whisper extractor, and what is read and resampled before them."""

import io
import json
import os
import struct
import sys
import tempfile
import tracemalloc
import wave

import numpy as np
import pytest
import transformers

from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime import memory
from txexport.runtime.preprocessing import resampling
from txexport.runtime.preprocessing.audio import SINGLE, read_blocks, read_sound
from txexport.runtime.preprocessing.extractors.log_mel import Audio
from txexport.runtime.preprocessing.resampling import resample, resampled, sinc_resample
from txexport.runtime.preprocessing.sound_files import RawPCM, open_sound

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


def test_a_recording_takes_the_memory_of_its_samples_and_features(tmp_path):
    judge(tmp_path, chunk_length=3)
    audio = Audio(tmp_path)
    samples = np.random.default_rng(0).standard_normal(16000 * 300).astype(np.float32)
    tracemalloc.start()
    features = audio.spectrogram(samples)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert features.shape == (80, 30000)
    assert most < samples.nbytes + features.nbytes + 10e6  # in float64, four times the features more


def test_a_recording_beyond_the_memory_is_refused_while_it_is_read(tmp_path, monkeypatch):
    judge(tmp_path, chunk_length=3)
    monkeypatch.setattr(memory, "total", lambda: 10**6)
    pipe = Pipe(wav(bytes(2 * 16000 * 60), size=0xFFFFFFFF))
    with pytest.raises(InputError, match=r"a sound would take 0\.0 GiB of memory"):
        Audio(tmp_path).recording(pipe)
    assert pipe.data.tell() < 10**6


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
    with open_sound(tmp_path / "stereo.wav") as sound:
        assert (sound.rate, sound.frames) == (22050, 3)
    samples = read_sound(tmp_path / "stereo.wav", 22050, None, None)
    assert samples.dtype == np.float32
    np.testing.assert_array_equal(samples, np.array(wanted, np.float32))
    write_wav(tmp_path / "mono.wav", data, 1, bits // 8)
    mono = read_sound(str(tmp_path / "mono.wav"), 16000, None, None)
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


@pytest.fixture(params=["soxr", "our filter"])
def resampler(request, monkeypatch):
    """The largest error of a tone's amplitude below 0.91 of the lower Nyquist frequency."""
    if request.param == "our filter":
        monkeypatch.setattr(resampling, "_soxr", lambda: None)
        return 1e-4
    pytest.importorskip("soxr")
    return 1e-3


RATES = [(44100, 16000), (48000, 16000), (22050, 16000), (8000, 16000), (11025, 16000), (16000, 22050)]


@pytest.mark.parametrize(("rate", "target"), RATES)
def test_resampling_keeps_tones(rate, target, resampler):
    """A tone is the same tone at the other rate: amplitude, frequency and phase."""
    for part in (0.003, 0.1, 0.5, 0.8, 0.91):
        hertz = part * min(rate, target) / 2
        found = resample(tone(hertz, rate, rate // 4), rate, target)
        assert found.dtype == np.float32
        assert found.size == -(-(rate // 4) * target // rate)
        middle = slice(target // 32, found.size - target // 32)
        wanted = tone(hertz, target, found.size)
        np.testing.assert_allclose(found[middle], wanted[middle], rtol=0, atol=resampler)


def test_resampling_drops_what_would_alias(resampler):
    for hertz in (8050, 8500, 10000, 15000, 20000):
        found = resample(tone(hertz, 44100, 22050), 44100, 16000)
        assert 20 * np.log10(np.abs(found[1000:-1000]).max()) < -90


def test_resampling_makes_no_images(resampler):
    found = resample(tone(3600, 8000, 8000), 8000, 16000)[2000:-2000]
    spectrum = np.abs(np.fft.rfft(found * np.kaiser(found.size, 14)))
    image = spectrum[np.fft.rfftfreq(found.size, 1 / 16000) > 4000].max()
    assert 20 * np.log10(image / spectrum.max()) < -90


def test_resampling_meets_silence_at_both_ends(resampler):
    """A sound within silence comes out as it does alone."""
    samples = np.random.default_rng(0).standard_normal(1000)
    within = resample(np.pad(samples, 441 * 3), 44100, 16000)[480 : 480 + 363]
    errors = np.abs(within - resample(samples, 44100, 16000))
    assert errors.max() < 20 * resampler  # soxr's first two samples are less exact
    assert errors[2:].max() < 1e-5


@pytest.mark.parametrize(("rate", "target"), RATES)
def test_both_resamplers_agree(rate, target):
    """Within soxr's error, at the frequencies that both keep."""
    pytest.importorskip("soxr")
    samples = sum(tone(part * min(rate, target) / 2, rate, rate // 2) for part in (0.01, 0.2, 0.5, 0.9)) / 4
    by_soxr, expected = resample(samples, rate, target), sinc_resample(samples, rate, target)
    middle = slice(target // 32, expected.size - target // 32)
    assert by_soxr.shape == expected.shape
    assert np.abs(by_soxr - expected)[middle].max() < 1e-3


@pytest.mark.parametrize("count", [1, 2, 999, 1000, 44101])
def test_blocks_are_resampled_as_a_sound_is(count, resampler):
    samples = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    blocks = [*resampled(iter(np.split(samples, range(700, count, 700))), 44100, 16000)]
    np.testing.assert_array_equal(np.concatenate(blocks), resample(samples, 44100, 16000))
    assert sum(block.size for block in blocks) == -(-count * 16000 // 44100)


def test_resampling_of_little(resampler):
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
    with pytest.raises(InputError, match=r"a sound is 1.001 s long, expected at most 1 s; cut it"):
        audio.features(whole, rate=44100)
    with pytest.raises(InputError, match=r"a sound is 2.5 s long"):
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


@pytest.fixture
def no_soundfile(monkeypatch):
    monkeypatch.setitem(sys.modules, "soundfile", None)


FORMATS = {  # suffix, subtype, largest error of a sample
    "float WAV": ("wav", "FLOAT", 0),
    "double WAV": ("wav", "DOUBLE", 0),
    "mu-law WAV": ("wav", "ULAW", 0.02),
    "16-bit FLAC": ("flac", "PCM_16", 2**-15),
    "24-bit FLAC": ("flac", "PCM_24", 2**-23),
    "OGG Vorbis": ("ogg", "VORBIS", 0.02),
    "OGG Opus": ("ogg", "OPUS", 0.05),
    "MP3": ("mp3", "MPEG_LAYER_III", 0.02),
    "AIFF": ("aiff", "PCM_16", 2**-15),
}


@pytest.mark.parametrize("name", FORMATS)
def test_other_formats(name, tmp_path):
    """A stereo file has the mean of its channels, and a stream is read as a file is."""
    soundfile = pytest.importorskip("soundfile")
    suffix, subtype, error = FORMATS[name]
    samples = (tone(300, 48000, 30001) / 2).astype(np.float32)
    path = tmp_path / f"sound.{suffix}"
    soundfile.write(path, np.stack([samples, samples / 2], axis=1), 48000, subtype=subtype)
    read = read_sound(path, 48000, None, None)
    assert read.dtype == np.float32
    assert abs(read.size - 30001) <= (2400 if suffix == "mp3" else 0)
    count = min(read.size, 28000)
    np.testing.assert_allclose(read[:count], samples[:count] * 0.75, rtol=0, atol=error)
    np.testing.assert_array_equal(read_sound(io.BytesIO(path.read_bytes()), 48000, None, None), read)


def test_formats_that_need_the_extra_name_it(tmp_path, no_soundfile):
    (tmp_path / "a.flac").write_bytes(b"fLaC" + bytes(200))
    wanted = "a.flac is not a PCM WAV file: .*; convert it to one, or for other formats pip install "
    with pytest.raises(InputError, match=wanted + r"'\.\[audio\]' in a checkout"):
        read_sound(tmp_path / "a.flac", 16000, None, None)


class Pipe(io.RawIOBase):
    """A stream that cannot seek, whose reads return at most `most` bytes."""

    def __init__(self, data: bytes, most: int = 2**30):
        self.data, self.most = io.BytesIO(data), most

    def readable(self):
        return True

    def read(self, size=-1):
        return self.data.read(min(size, self.most))


def wav(data: bytes, channels=1, bits=16, width=2, size=None, kind=1) -> bytes:
    """A WAV file at 16 kHz, whose header says that the data has `size` bytes."""
    block = channels * width
    form = struct.pack("<HHIIHH", kind, channels, 16000, 16000 * block, block, bits)
    chunk = b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", 28 + len(chunk)) + b"WAVEfmt " + struct.pack("<I", 16) + form + chunk


def test_short_reads_of_a_pipe_split_no_samples():
    """An unbuffered pipe returns what is there, also a part of a sample."""
    data, expected = PCM[24]
    for most in (1, 5, 17):
        read = read_sound(Pipe(wav(data * 500, 2, 24, 3), most), 16000, None, None)
        np.testing.assert_array_equal(read, np.array(expected * 500, np.float32))
        raw = np.arange(-500, 500, dtype="<i2")
        read = read_sound(RawPCM(Pipe(raw.tobytes(), most), 16000), 16000, None, None)
        np.testing.assert_array_equal(read, raw / np.float32(2**15))


@pytest.mark.parametrize("bits", [24, 20, 12])
def test_samples_may_have_fewer_bits_than_their_bytes(bits, no_soundfile):
    """Such as 24 bits in 4 bytes, of which the lowest is 0."""
    width = 4 if bits > 16 else 2
    numbers = np.random.default_rng(0).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (500, 2))
    data = (numbers << (8 * width - bits)).astype(f"<i{width}").tobytes()
    read = read_sound(io.BytesIO(wav(data, 2, bits, width)), 16000, None, None)
    np.testing.assert_allclose(read, numbers.mean(axis=1) / 2 ** (bits - 1), rtol=0, atol=1e-7)


def test_samples_of_other_sizes_are_refused(no_soundfile):
    for bits, width in ((64, 8), (24, 2), (0, 2), (16, 0)):
        with pytest.raises(InputError, match=f"sound file has {bits} bits in {width} bytes, expected 8, 16"):
            read_sound(io.BytesIO(wav(bytes(80), 1, bits, width)), 16000, None, None)


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x7FFFF000])
def test_a_file_written_through_a_pipe_is_read_to_its_end(size, tmp_path):
    """The program did not know the size when it wrote the header."""
    samples = np.arange(-500, 500, dtype="<i2")
    (tmp_path / "a.wav").write_bytes(wav(samples.tobytes(), size=size))
    read = read_sound(tmp_path / "a.wav", 16000, None, 1000)
    np.testing.assert_array_equal(read, samples / np.float32(2**15))
    soundfile = pytest.importorskip("soundfile")
    assert len(soundfile.read(tmp_path / "a.wav")[0]) == 1000
    floats = wav(np.ones(1000, "<f4").tobytes(), bits=32, width=4, size=size, kind=3)
    assert read_sound(io.BytesIO(floats), 16000, None, None).size == 1000


def test_a_size_of_half_a_sample_counts_complete_samples():
    assert read_sound(io.BytesIO(wav(bytes(1998), size=1999)), 16000, None, None).size == 999
    with pytest.raises(InputError, match="sound file is cut short: 1990 of 1999 bytes"):
        read_sound(io.BytesIO(wav(bytes(1990), size=1999)), 16000, None, None)


CUT = (
    ("wav", "FLOAT", "WAV"),
    ("wav", "FLOAT", "WAVEX"),
    ("wav", "PCM_24", "WAVEX"),
    ("aiff", "PCM_16", "AIFF"),
)


@pytest.mark.parametrize(("suffix", "subtype", "kind"), CUT)
def test_files_cut_short_are_refused(suffix, subtype, kind, tmp_path):
    """libsndfile reads them without a word."""
    soundfile = pytest.importorskip("soundfile")
    path = tmp_path / f"a.{suffix}"
    soundfile.write(path, np.linspace(-1, 1, 5000), 16000, subtype=subtype, format=kind)
    data = path.read_bytes()
    assert read_sound(path, 16000, None, None).size == 5000
    path.write_bytes(data[: len(data) // 2])
    for source in (path, io.BytesIO(path.read_bytes())):
        with pytest.raises(InputError, match=r"is cut short: \d+ of \d+ bytes"):
            read_sound(source, 16000, None, None)


@pytest.mark.parametrize("kind", ["WAV", "AIFF"])
def test_gsm_is_read(kind):
    """libsndfile cannot seek in it."""
    soundfile = pytest.importorskip("soundfile")
    file = io.BytesIO()
    soundfile.write(file, tone(300, 8000, 4000) / 2, 8000, subtype="GSM610", format=kind)
    file.seek(0)
    read = read_sound(file, 8000, None, None)
    assert 4000 <= read.size <= 4480  # complete blocks of 320 samples
    np.testing.assert_allclose(read[160:3800], tone(300, 8000, 4000)[160:3800] / 2, rtol=0, atol=0.1)


def test_a_stream_is_read_from_its_position():
    soundfile = pytest.importorskip("soundfile")
    samples = (np.arange(-500, 500) / 2**15).astype(np.float32)
    for kind in ("WAV", "FLAC"):
        file = io.BytesIO(bytes(20))
        file.seek(20)
        encoded = io.BytesIO()
        soundfile.write(encoded, samples, 16000, subtype="PCM_16", format=kind)
        file.write(encoded.getvalue())
        file.seek(20)
        np.testing.assert_array_equal(read_sound(file, 16000, None, None), samples)
    file.seek(0, io.SEEK_END)
    with pytest.raises(InputError, match=r"sound file is at its end; seek\(0\)"):
        read_sound(file, 16000, None, None)


def test_temporary_files_and_entries_of_folders_are_sounds(tmp_path):
    judge(tmp_path, chunk_length=1)
    audio, data = Audio(tmp_path), wav(np.arange(999, dtype="<i2").tobytes())
    expected = audio.features(data)
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.seek(0)
        np.testing.assert_array_equal(audio.features(file), expected)
    (tmp_path / "sounds").mkdir()
    (tmp_path / "sounds" / "a.wav").write_bytes(data)
    [entry] = os.scandir(tmp_path / "sounds")
    np.testing.assert_array_equal(audio.features(entry), expected)
    assert isinstance(entry, SINGLE)
    assert isinstance(file, SINGLE)


def test_streams_that_hold_no_bytes_are_refused(tmp_path):
    closed = io.BytesIO(wav(bytes(8)))
    closed.close()
    with (tmp_path / "a.wav").open("wb") as writing, (tmp_path / "a.wav").open() as text:
        for source, message in (
            (closed, "sound file is closed"),
            (writing, "a.wav is open for writing only"),
            (text, "a.wav is a text stream; open it in binary mode"),
            (io.StringIO("RIFF"), "sound file is a text stream"),
            (RawPCM(closed, 16000), "sound file is closed"),
        ):
            with pytest.raises(InputError, match=message):
                read_sound(source, 16000, None, None)


def test_a_pipe_may_end_before_its_header_says(tmp_path):
    """ffmpeg writes the largest length into the header of a pipe."""
    samples = (tone(300, 16000, 4000) * 30000).astype("<i2")
    write_wav(tmp_path / "a.wav", samples.tobytes(), 1, 2)
    data = (tmp_path / "a.wav").read_bytes()
    endless = data[:4] + b"\xff" * 4 + data[8:40] + b"\xff" * 4 + data[44:]
    read = read_sound(Pipe(endless), 16000, None, None)
    np.testing.assert_array_equal(read, samples / np.float32(2**15))
    with pytest.raises(InputError, match=r"a sound is 0.25 s long, expected at most 0.249938 s; cut it"):
        read_sound(Pipe(endless), 16000, None, 3999)
    with pytest.raises(InputError, match="save it to a file and give its path"):
        read_sound(Pipe(b"fLaC" + bytes(200)), 16000, None, None)


def test_a_long_file_needs_the_memory_of_a_block(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    pytest.importorskip("soxr")
    samples = np.zeros(8_000 * 3600, np.int16)
    soundfile.write(tmp_path / "hour.flac", samples, 8000)
    write_wav(tmp_path / "hour.wav", samples.tobytes(), 1, 2, 8000)
    del samples
    for name in ("hour.flac", "hour.wav"):
        tracemalloc.start()
        count = sum(block.size for block in read_blocks(tmp_path / name, 16000))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == 16_000 * 3600
        assert most < 20e6  # all of it is 230 MB


def test_an_array_is_resampled_in_parts():
    """Of a lower rate, the resampled sound is much larger than the sound."""
    pytest.importorskip("soxr")
    samples = np.zeros(2**21, np.float32)
    tracemalloc.start()
    sizes = [block.size for block in read_blocks(samples, 16000, 1000)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(sizes) == 2**25
    assert most < 40e6  # all of it is 134 MB


def damaged(folder):
    write_wav(folder / "whole.wav", bytes(2000), 2, 2)
    whole = (folder / "whole.wav").read_bytes()
    (folder / "half.wav").write_bytes(whole[:1001])
    (folder / "head.wav").write_bytes(whole[:20])
    (folder / "empty.wav").touch()
    (folder / "page.wav").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (folder / "nine.mp3").write_bytes(b"ID3456789")
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
        ("empty.wav", "sound .*empty.wav is empty; copy it again$"),
        ("page.wav", r"sound .*page.wav is a picture \(PNG\); expected the file of a sound$"),
        ("nine.mp3", "sound .*nine.mp3 has 9 bytes, too few for a sound; copy it again$"),
        ("float.wav", "float.wav is not a PCM WAV file: unknown format: 3; convert it"),
        ("still.wav", "a rate is 0, expected a whole number of Hz, from 1000 to 384000"),
        ("gone.wav", "gone.wav cannot be read: .*No such file"),
        (np.zeros(5, np.int16), r"a sound is int16 \(5,\), expected floats \(N,\) between -1 and 1"),
        (None, r"^a sound is None, expected the path or the bytes of a file, or an array \(N,\) of floats"),
        ([0.0, 0.5], r"^a sound is 0.0, expected .* between -1 and 1; a list is several sounds$"),
        (np.full(5, 1e30), r"^a sound has samples up to 1e\+30, expected floats between -1 and 1$"),
        (np.zeros((2, 5)), r"a sound is float64 \(2, 5\), expected floats \(N,\)"),
        (np.zeros(0), "a sound has no samples; leave it out"),
        (np.array([0.1, np.nan]), "a sound has 1 of 2 samples that are not finite; correct it"),
        (np.array([1e300, 0.1, -1e39]), "a sound has 2 of 3 samples that are not finite"),  # in float32
        ([], "no sound was given"),
    ],
)
def test_what_is_no_sound(given, said, tmp_path, no_soundfile):
    judge(tmp_path)
    damaged(tmp_path)
    with pytest.raises(InputError, match=said) as caught:
        Audio(tmp_path).features(tmp_path / given if isinstance(given, str) else given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["head.wav", "text.wav", "float.wav"])
def test_what_libsndfile_cannot_read(name, tmp_path):
    pytest.importorskip("soundfile")
    damaged(tmp_path)
    wanted = rf"{name} is not a PCM WAV file: [^;]*, and libsndfile cannot read it: [^:]+; convert it$"
    with pytest.raises(InputError, match=wanted):
        read_sound(tmp_path / name, 16000, None, None)


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


@pytest.mark.parametrize("rate", [0, -1, 999, 16000.5])
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
