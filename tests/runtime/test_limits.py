"""Inputs too large, too wide or of the wrong type are refused in one line, before time or memory is used."""

import json
import struct
import tracemalloc
import wave
import zipfile
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_checkpoint
from click.testing import CliRunner
from helpers.rows import Row
from PIL import Image
from safetensors.numpy import load_file, save_file

import txexport
from txexport import bundle
from txexport.cli.main import main
from txexport.errors import BundleError, InputError
from txexport.runtime import memory
from txexport.runtime.arrays import read_npz
from txexport.runtime.generation.kv_cache import StaticCache
from txexport.runtime.preprocessing.extractors.log_mel import Audio
from txexport.runtime.preprocessing.images import Images, Prepared
from txexport.runtime.preprocessing.resampling import sinc_resample
from txexport.runtime.session import Session
from txexport.runtime.tasks.whisper.special_tokens import SpecialTokens
from txexport.runtime.vectors.pooling import read_pooling

PROCESSOR = "preprocessor_config.json"


@pytest.fixture
def model_of(bundle_of):
    """A function from a row or a model_type, and a cache, to a loaded Model."""
    return lambda what, cache=None: txexport.load(bundle_of(what, cache), device="cpu", threads=1)


@pytest.fixture
def little():
    """A function that raises what another raises, unless that takes 64 megabytes."""

    def call(function, *arguments, **options):
        tracemalloc.start()
        try:
            return function(*arguments, **options)
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 2**26

    return call


OPTIONS = [
    ({"num_beams": 10**6}, "num_beams is 1000000, expected at most 16384"),
    (
        {"num_return_sequences": 10**7, "do_sample": True},
        "num_return_sequences is 10000000, expected at most",
    ),
    ({"num_beams": 16384, "max_new_tokens": 10**9}, "would take"),
    ({"pad_token_id": 2**70}, "pad_token_id is 1180591620717411303424, expected a whole number"),
    ({"pad_token_id": 10**5000}, "pad_token_id is a int, expected a whole number"),
    ({"max_new_tokens": 2**64}, "max_new_tokens is 18446744073709551616, expected a whole number"),
    ({"length_penalty": 1e308, "num_beams": 2}, r"length_penalty is 1e\+308, which 20 tokens raise beyond"),
    ({"length_penalty": -1e308, "num_beams": 2}, r"length_penalty is -1e\+308, which 20 tokens raise beyond"),
    ({"length_penalty": 1e308, "num_beams": 2, "num_beam_groups": 2, "diversity_penalty": 1.0}, "beyond all"),
    ({"temperature": float("nan"), "do_sample": True}, "temperature is nan, expected a number above 0"),
    ({"repetition_penalty": 1e-300}, "options make scores that are NaN or infinity"),
    ({"stop_strings": "\ud800"}, "stop_strings is '.ud800', expected a text"),
    ({"logits_processor": 5}, "logits_processor is a int, expected a function"),
    (
        {"logits_processor": lambda rows, scores: None},
        r"logits_processor gave NoneType, expected an array of floats \(1, 311\)",
    ),
    (
        {"logits_processor": lambda rows, scores: np.full_like(scores, -np.inf)},
        "options rule out every token; choose fewer of them",
    ),
    (
        {"logits_processor": lambda rows, scores: scores[0]},
        r"logits_processor gave float32 \(311,\), expected an array",
    ),
    (
        {"logits_processor": lambda rows, scores: scores.argsort()},
        r"logits_processor gave int64 \(1, 311\), expected",
    ),
    (
        {"logits_processor": lambda rows, scores: scores * np.nan},
        "logits_processor makes scores that are NaN",
    ),
    (
        {"logits_processor": lambda rows, scores: scores + np.inf},
        "several tokens of a row; give large finite numbers",
    ),
    ({"batch_tokens": True}, "batch_tokens is True, expected at least 1"),
    ({"batch_tokens": None}, "batch_tokens is None, expected at least 1"),
    ({"batch_tokens": 1.5}, "batch_tokens is 1.5, expected at least 1"),
]


@pytest.mark.parametrize(("options", "said"), OPTIONS, ids=[str(row[1])[:50] for row in OPTIONS])
@pytest.mark.filterwarnings("ignore:.*changes nothing without")
def test_options_of_generation(options, said, model_of, little):
    model = model_of("t5")  # without a longest sequence, so that nothing else bounds new tokens
    with pytest.raises(InputError, match=said) as error:
        little(model.generate_ids, [[5, 6]], **options)
    assert "\n" not in str(error.value)


FORCING = [
    {},
    {"do_sample": True, "temperature": 2.0},
    {"num_beams": 3, "num_return_sequences": 2},
    {"num_beams": 2, "do_sample": True},
    {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
]


@pytest.mark.parametrize("options", FORCING, ids=str)
def test_logits_processor_forces_a_token(options, model_of):
    """Of the first row the second new token; the other row goes on as without."""

    def forced(rows, scores):
        for row, own in zip(rows, scores, strict=True):
            if row[0] == 5 and len(row) == 3:
                own[77] = np.inf
        return scores

    model, asked = model_of("gpt2"), {"max_new_tokens": 4, "eos_token_id": None, "seed": 1} | options
    copies = asked.get("num_return_sequences", 1)
    found = model.generate_with_scores([[5, 6], [8, 9]], logits_processor=forced, **asked)
    assert [result.tokens[1] for result in found[:copies]] == [77] * copies
    plain = model.generate_with_scores([[5, 6], [8, 9]], **asked)
    assert [result.tokens for result in found[copies:]] == [result.tokens for result in plain[copies:]]
    if options.get("num_beams"):
        assert all(-100 < result.score < 0 for result in found)
    else:
        logged = model.generate_with_scores([[5, 6]], logits_processor=forced, log_probs=True, **asked)[0]
        assert logged.log_probs[1] == 0
        assert all(np.isfinite(logged.log_probs))


@pytest.mark.filterwarnings("error")
def test_a_length_penalty_is_of_beams_alone(model_of):
    model, huge = model_of("gpt2"), {"length_penalty": 100.0, "max_new_tokens": 8}
    with pytest.raises(InputError, match="length_penalty is 100, which 8 tokens raise beyond all numbers"):
        model.generate_ids([[5]], num_beams=2, **huge)
    with pytest.warns(UserWarning, match="length_penalty changes nothing without"):
        found = model.generate_ids([[5]], **huge)
    assert found == model.generate_ids([[5]], max_new_tokens=8)


def test_whole_numbers_of_numpy(bundle_of, model_of):
    model = txexport.load(bundle_of("bert"), device="cpu", threads=np.int64(1))
    texts = ["the cat", "a mat"]
    vectors = model.embed(texts, pooling="mean", batch_tokens=np.int64(512))
    assert np.array_equal(vectors, model.embed(texts, pooling="mean", batch_tokens=512))
    for threads in (-1, 1025, np.int64(1025)):
        with pytest.raises(InputError, match=r"threads is .*, expected a whole number from 0 to 1024"):
            txexport.load(bundle_of("bert"), threads=threads)
    tagger, reader = model_of(ENCODERS[2][0]), model_of(ENCODERS[3][0])
    assert tagger.tag("the cat " * 30, stride=np.int32(4)) == tagger.tag("the cat " * 30, stride=4)
    asked = {"max_seq_len": np.int64(20), "doc_stride": np.uint8(4)}
    assert reader.answer("the", "cat " * 30, **asked) == reader.answer(
        "the", "cat " * 30, max_seq_len=20, doc_stride=4
    )
    for stride in (True, 1.5, np.int64(-1)):
        with pytest.raises(InputError, match=r"^stride is .*, expected a whole number of at least 0"):
            tagger.tag("the cat " * 30, stride=stride)


def test_inputs_of_a_graph_are_fitted_once(model_of, monkeypatch):
    model, fit, calls = model_of("bert"), Session.fit, []
    monkeypatch.setattr(Session, "fit", lambda self, inputs: calls.append(1) or fit(self, inputs))
    ones = np.ones((1, 3), np.int32)
    model.run(input_ids=ones, attention_mask=ones, token_type_ids=ones * 0)
    assert len(calls) == 1


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_caches_are_compared_with_the_memory_there_is(cache, model_of, little, monkeypatch):
    model = model_of("gpt2", cache)
    monkeypatch.setattr(memory, "total", lambda: 2**22)
    sampled = {"do_sample": True, "num_return_sequences": 300}
    for options in ({"num_beams": 300}, sampled):
        with pytest.raises(InputError, match=r"a cache of 300 rows of 21 tokens would take .* of memory"):
            little(model.generate_ids, [[5]], **options)
    with pytest.raises(InputError, match=r"a cache of 400 rows of 2[0-9] tokens would take"):
        little(model.generate_ids, [[5]] * 400, batch_tokens=10**12)
    assert len(model.generate_ids([[5]] * 400, max_new_tokens=2)) == 400  # in batches of their usual size


def test_a_cache_that_grows_beyond_the_memory(model_of, monkeypatch):
    model = model_of("t5")
    monkeypatch.setattr(memory, "total", lambda: 2**19)
    with pytest.raises(InputError, match="a cache of 1 row of 2,048 tokens would take"):
        model.generate_ids([[5, 6]], max_new_tokens=10**9, eos_token_id=None)


def test_batches_of_an_encoder_are_compared_with_the_memory_there_is(model_of, monkeypatch):
    model = model_of("bert")
    monkeypatch.setattr(memory, "total", lambda: 2**16)
    with pytest.raises(InputError, match=r"a batch of 200 texts of [0-9]+ tokens would take"):
        model.embed(["the cat"] * 200, pooling="mean", batch_tokens=10**12)


def test_memory_of_a_container_counts(monkeypatch, tmp_path):
    (tmp_path / "memory.max").write_text("12345\n")
    monkeypatch.setattr(memory, "CONTAINER", tmp_path / "memory.max")
    memory.total.cache_clear()
    assert memory.total() == 12345
    (tmp_path / "memory.max").write_text("max\n")
    memory.total.cache_clear()
    assert memory.total() > 2**28
    memory.total.cache_clear()


def test_padding_beyond_the_vocabulary_changes_nothing(model_of):
    rows = [[5, 6, 7], [8], [9, 10]]
    for what in ("gpt2", "t5"):
        model = model_of(what)
        expected = model.generate_ids(rows, max_new_tokens=4, pad_token_id=0, eos_token_id=None)
        assert model.generate_ids(rows, max_new_tokens=4, pad_token_id=311, eos_token_id=None) == expected
        assert model.generate_ids(rows, max_new_tokens=4, eos_token_id=[50256]) == expected


def test_a_first_token_beyond_the_vocabulary(model_of):
    with pytest.raises(InputError, match="decoder_start_token_id is 311, expected 0 to 310"):
        model_of("t5").generate_ids([[5]], decoder_start_token_id=311)


@pytest.mark.parametrize("token", [-1, 311, 2**62])
def test_tokens_are_rows_of_the_embedding(token, model_of):
    said = "expected 0 (to 310|or more)"
    gpt2, t5, bert = model_of("gpt2", "dynamic"), model_of("t5"), model_of("bert")
    for call in (gpt2.generate_ids, gpt2.generate_with_scores, t5.generate_ids, t5.generate_with_scores):
        with pytest.raises(InputError, match=said):
            call([[5, token]])
    ids = np.array([[5, token]])
    past = {
        name: np.zeros((1, 3, 0, 16), np.float32)
        for name in gpt2.sessions["model"].inputs
        if name.startswith("past")
    }
    ones, zeros = np.ones_like(ids), np.zeros_like(ids)
    with pytest.raises(InputError, match=f"input 'input_ids' has {token}, {said}"):
        gpt2.run(input_ids=ids, attention_mask=ones, position_ids=zeros, **past)
    with pytest.raises(InputError, match=f"input 'input_ids' has {token}, {said}"):
        t5.run("encoder_model", input_ids=ids, attention_mask=ones)
    with pytest.raises(InputError, match=f"input 'input_ids' has {token}, {said}"):
        bert.run(input_ids=ids, attention_mask=ones, token_type_ids=zeros)
    with pytest.raises(InputError, match="input 'token_type_ids' has -1, expected 0 or more"):
        bert.run(input_ids=ones, attention_mask=ones, token_type_ids=-ones)
    with pytest.raises(InputError, match="input 'position_ids' has -1, expected 0 or more"):
        gpt2.run(input_ids=ones, attention_mask=ones, position_ids=-ones, **past)


@pytest.mark.parametrize(
    "value",
    [None, 5, [[1], [2, 3]], [["x"]], object(), np.array("x")],
    ids=lambda value: type(value).__name__,
)
def test_inputs_of_a_graph_of_another_type(value, model_of):
    ones = np.ones((1, 3), np.int64)
    with pytest.raises(InputError, match="input 'input_ids' is "):
        model_of("bert").run(input_ids=value, attention_mask=ones, token_type_ids=ones)


@pytest.mark.parametrize(
    "value",
    [None, 5, [1], 2**70, 1.5, np.array("x"), object(), [[1], [2, 3]]],
    ids=lambda value: type(value).__name__,
)
def test_arguments_of_another_type(value, model_of, bundle_of):
    gpt2, bert, whisper = model_of("gpt2"), model_of("bert"), model_of("whisper")
    for call in (gpt2.generate, gpt2.score, bert.embed, lambda texts: list(gpt2.stream_many(texts))):
        with pytest.raises(InputError, match=r"a text is .*, expected str|choose pooling"):
            call(value)
    if not isinstance(value, list):
        for call in (gpt2.generate_ids, gpt2.generate_with_scores, whisper.generate_ids):
            with pytest.raises(InputError, match=r"token ids are not rows|a spectrogram is"):
                call(value)
    with pytest.raises(InputError, match=r"folder is .*, expected a text or a path"):
        txexport.load(value)
    with (
        pytest.raises(InputError, match=r"no graph|which graph")
        if value is not None
        else pytest.raises(InputError)
    ):
        bert.run(value, input_ids=None)
    for name in ("device", "threads"):
        if value is not None and (name, value) != ("threads", 5):
            with pytest.raises(InputError, match=f"{name} is .*, expected"):
                txexport.load(bundle_of("bert"), **{name: value})
    if value is not None:
        with pytest.raises(InputError, match=r"truncate is .*, expected true or false"):
            bert.embed("the", pooling="mean", truncate=value)
        with pytest.raises(InputError, match=r"pooling .* is not known"):
            bert.embed("the", pooling=value)


def test_command_ends_with_2_and_one_line(bundle_of):
    arguments = ["generate", str(bundle_of("gpt2", None)), "the cat", "--num-beams", "1000000"]
    found = CliRunner().invoke(main, arguments)
    assert found.exit_code == 2
    assert found.stderr == "error: num_beams is 1000000, expected at most 16384\n"


@pytest.fixture
def sound(tmp_path):
    """A WAV file of 244 bytes."""
    (tmp_path / PROCESSOR).write_text('{"feature_extractor_type": "WhisperFeatureExtractor"}')
    with wave.open(str(tmp_path / "sound.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16000)
        file.writeframes(bytes(200))
    return tmp_path / "sound.wav"


LIES = [
    (24, "<I", 2**32 - 1, "a rate is 4294967295, expected a whole number of Hz, from 1000 to 384000"),
    (40, "<I", 2**32 - 2, "sound.wav is cut short: 200 of 4294967294 bytes"),
    (16, "<I", 2**32 - 1, "sound.wav is not a PCM WAV file"),
    (16, "<I", 15, "sound.wav is not a PCM WAV file"),
    (22, "<H", 0, "sound.wav is not a PCM WAV file"),
    (34, "<H", 0, "sound.wav has 0 bits in 2 bytes"),
    (34, "<H", 65535, "sound.wav "),
]


@pytest.mark.parametrize(("place", "form", "value", "said"), LIES, ids=[f"{row[0]} {row[2]}" for row in LIES])
def test_a_sound_whose_header_lies(place, form, value, said, sound, little):
    data = bytearray(sound.read_bytes())
    assert len(data) == 244
    struct.pack_into(form, data, place, value)
    sound.write_bytes(data)
    with pytest.raises(InputError, match=said) as error:
        little(Audio(sound.parent).features, sound)
    assert "\n" not in str(error.value)


def test_a_rate_without_a_simple_ratio(little):
    with pytest.raises(
        InputError, match="a rate of 383999 Hz is no simple ratio to 16000; convert the sound"
    ):
        little(sinc_resample, np.zeros(383999, np.float32), 383999, 16000)


@pytest.mark.parametrize(
    "settings",
    [
        {"feature_size": 10**9},
        {"n_fft": 10**9},
        {"chunk_length": 10**9},
        {"sampling_rate": 10**18},
        {"hop_length": 10**30},
        {"n_fft": 500_000, "chunk_length": 1},
        {"padding_value": [0]},
        {"padding_value": float("nan")},
        {"padding_value": 10**400},
    ],
    ids=lambda value: type(value).__name__,
)
def test_settings_of_sounds(settings, sound, little):
    kind = {"feature_extractor_type": "WhisperFeatureExtractor"}
    (sound.parent / PROCESSOR).write_text(json.dumps(kind | settings))
    with pytest.raises(BundleError, match=r"^feature extractor: |cannot be read as JSON"):
        little(Audio, sound.parent)


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ((2, 60000), "would be resized to 224 x 6720000, expected at most 16,777,216 pixels; cut it"),
        ((60000, 2), "would be resized to 6720000 x 224, expected at most"),
        ((13304, 13304), "is 13304 x 13304, expected at most 134,217,728 pixels; make it smaller"),
        ((20000, 20000), "cannot be read: Image size .* exceeds limit"),
    ],
)
@pytest.mark.filterwarnings("error", "ignore::PIL.Image.DecompressionBombWarning")
def test_images_of_many_pixels(size, said, tmp_path, little):
    (tmp_path / PROCESSOR).write_text('{"image_processor_type": "CLIPImageProcessor"}')
    Image.new("1", size).save(tmp_path / "large.png")
    with pytest.raises(InputError, match=said) as error:
        little(Images(tmp_path).pixels, tmp_path / "large.png")
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("error")
def test_where_warnings_are_errors_a_large_image_is_still_one_line(tmp_path, little):
    (tmp_path / PROCESSOR).write_text('{"image_processor_type": "CLIPImageProcessor"}')
    Image.new("1", (13304, 13304)).save(tmp_path / "large.png")
    with pytest.raises(InputError, match=r"large.png cannot be read: Image size .* exceeds limit"):
        little(Images(tmp_path).pixels, tmp_path / "large.png")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_photograph_of_108_megapixels_is_none_too_large(tmp_path):
    (tmp_path / PROCESSOR).write_text('{"image_processor_type": "CLIPImageProcessor"}')
    Image.new("1", (12000, 9000)).save(tmp_path / "photograph.png")
    assert Images(tmp_path).pixels(tmp_path / "photograph.png").shape == (1, 3, 224, 224)


@pytest.mark.parametrize(
    "settings",
    [
        {"size": {"shortest_edge": 10**9}},
        {"size": {"height": 10**9, "width": 10**9}},
        {"crop_size": {"height": 1, "width": 10**9}},
        {"crop_size": 10**300},
        {"rescale_factor": 1e308},
        {"image_std": [0, 1, 1]},
        {"image_mean": float("nan")},
    ],
    ids=lambda settings: str(settings)[:40],
)
def test_settings_of_images(settings, tmp_path, little):
    (tmp_path / PROCESSOR).write_text(json.dumps({"image_processor_type": "CLIPImageProcessor"} | settings))
    with pytest.raises(BundleError, match=r"^image processor: .*expected"):
        little(Images, tmp_path)


def test_a_batch_of_images_is_compared_with_the_memory_there_is(tmp_path, monkeypatch):
    (tmp_path / PROCESSOR).write_text('{"image_processor_type": "CLIPImageProcessor"}')
    monkeypatch.setattr(memory, "total", lambda: 2**20)
    with pytest.raises(InputError, match="100 images of this size would take"):
        Images(tmp_path).pixels([np.zeros((9, 9, 3), np.uint8)] * 100)


def test_an_archive_of_6_gigabytes_is_refused_by_its_header(tmp_path, little):
    path = tmp_path / "inputs.npz"
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open("input_ids.npy", "w") as file:
            header = {"descr": "<f8", "fortran_order": False, "shape": (3 * 2**28,)}
            np.lib.format.write_array_header_1_0(file, header)
            start = file.tell() if file.seekable() else 128
        archive.getinfo("input_ids.npy").file_size = start + 6 * 2**30
    with pytest.raises(InputError, match="holds 6,442,450,944 bytes of arrays, expected"):
        little(read_npz, path, InputError)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.array([None, 1]), "is object, expected numbers"),
        (np.array(["x"]), "is <U1, expected numbers"),
        (np.zeros(3, [("x", "f4")]), "expected numbers"),
    ],
    ids=["objects", "texts", "records"],
)
def test_an_archive_of_no_numbers(array, said, tmp_path):
    np.savez(tmp_path / "inputs.npz", input_ids=array)
    with pytest.raises(InputError, match=said):
        read_npz(tmp_path / "inputs.npz", InputError)


def test_a_damaged_archive_is_one_line(tmp_path):
    np.savez(tmp_path / "whole.npz", a=np.arange(50), b=np.ones((2, 3)))
    whole, path = (tmp_path / "whole.npz").read_bytes(), tmp_path / "damaged.npz"
    random, said = np.random.default_rng(0), []
    for case in range(300):
        data = bytearray(whole)
        for place in random.integers(0, len(data), 3):
            data[place] = random.integers(0, 256)
        path.write_bytes(data[: random.integers(0, len(data))] if case % 5 == 0 else data)
        try:
            read_npz(path, InputError)
        except InputError as error:
            said.append(str(error))
    assert len(said) > 200
    assert not any("\n" in line for line in said)


@pytest.mark.parametrize(
    "text", ["[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000, '{"a":' + "9" * 5000]
)
def test_json_of_great_depth(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(BundleError, match=r"config.json cannot be read as JSON"):
        bundle.read_json(tmp_path / "config.json")


@pytest.mark.parametrize(
    "values",
    [
        {"no_timestamps_token_id": "x"},
        {"no_timestamps_token_id": 10**9},
        {"language": ["fr"]},
        {"task": 5},
        {"lang_to_id": {"<|fr|>": -1}},
        {"task_to_id": [1]},
    ],
    ids=lambda value: type(value).__name__,
)
def test_settings_of_speech(values, tmp_path):
    (tmp_path / "generation_config.json").write_text(json.dumps(values))
    with pytest.raises(BundleError, match=r"^generation_config.json: "):
        SpecialTokens(tmp_path).check(300)


@pytest.mark.parametrize(
    "arrays",
    [
        {"weight": np.ones(3)},
        {"weight": np.ones((3, 4)), "bias": np.ones(4)},
        {"weight": np.full((3, 4), np.nan)},
        {"bias": np.ones(4)},
        {"weight": np.array([[None]])},
    ],
    ids=["one dimension", "another bias", "no number", "no weight", "objects"],
)
def test_dense_layers_of_sentence_vectors(arrays, tmp_path):
    modules = [{"type": "Pooling", "path": "1"}, {"type": "Dense", "path": "2"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    for name, config in (("1", {"pooling_mode": "mean"}), ("2", {})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    np.savez(tmp_path / "2" / "dense.npz", **arrays)
    with pytest.raises(BundleError, match=r"expected (finite weight|numbers)"):
        read_pooling(tmp_path)


@pytest.mark.parametrize(
    "settings", [{"max_seq_length": "x"}, {"max_seq_length": -1}, {"do_lower_case": "no"}], ids=str
)
def test_settings_of_sentence_vectors(settings, tmp_path):
    (tmp_path / "modules.json").write_text('[{"type": "Pooling", "path": ""}]')
    (tmp_path / "config.json").write_text('{"pooling_mode": "mean"}')
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps(settings))
    with pytest.raises(BundleError, match="expected a whole number of at least 1, and true or false"):
        read_pooling(tmp_path)


NAN = "output '.*' has NaN or infinity; run txexport verify"
IMAGE = np.zeros((9, 9, 3), np.uint8)
OCR = {"words": ["the", "cat"], "boxes": [[0, 0, 9, 9], [9, 0, 20, 9]]}
ENCODERS = [
    (Row("bert", "BertModel", "feature-extraction"), lambda m: m.embed("the cat", pooling="mean")),
    (Row("bert", "BertForSequenceClassification", "text-classification"), lambda m: m.classify("the cat")),
    (Row("bert", "BertForTokenClassification", "token-classification"), lambda m: m.tag("the cat")),
    (Row("bert", "BertForQuestionAnswering", "question-answering"), lambda m: m.answer("the", "the cat")),
    *(
        (Row("layoutlm", f"LayoutLM{head}", task), call)
        for head, task, call in [
            ("Model", "feature-extraction", lambda m: m.embed_words(OCR)),
            ("ForTokenClassification", "token-classification", lambda m: m.tag_words(OCR)),
            ("ForSequenceClassification", "text-classification", lambda m: m.classify_page(OCR)),
            ("ForQuestionAnswering", "document-question-answering", lambda m: m.answer_page("the", OCR)),
        ]
    ),
    (Row("bert", "BertForMultipleChoice", "multiple-choice"), lambda m: m.choose("the", ["cat", "mat"])),
    (
        Row("bert", "BertForNextSentencePrediction", "next-sentence-prediction"),
        lambda m: m.next_sentence("a", "b"),
    ),
    (Row("bert", "BertForMaskedLM", "fill-mask"), lambda m: m.fill_mask("the <mask>")),
    (Row("bert", "BertForSequenceClassification", "text-classification"), lambda m: m.zero_shot("a", ["b"])),
    (
        Row("bert", "BertForSequenceClassification", "text-classification", "1 label", {"num_labels": 1}),
        lambda m: m.rerank("a", ["b"]),
    ),
    (
        Row("audio-spectrogram-transformer", "ASTForAudioClassification", "audio-classification"),
        lambda m: m.classify_audio(np.zeros(3000)),
    ),
    (Row("vit", "ViTForImageClassification", "image-classification"), lambda m: m.classify_image(IMAGE)),
    (Row("vit", "ViTModel", "image-feature-extraction"), lambda m: m.embed_image(IMAGE)),
    (Row("yolos", "YolosForObjectDetection", "object-detection"), lambda m: m.detect(IMAGE)),
    (Row("detr", "DetrForObjectDetection", "object-detection"), lambda m: m.detect(IMAGE)),
    (
        Row("depth_anything", "DepthAnythingForDepthEstimation", "depth-estimation"),
        lambda m: m.depth(IMAGE)["predicted_depth"],
    ),
    (
        Row("segformer", "SegformerForSemanticSegmentation", "image-segmentation"),
        lambda m: m.segment(IMAGE),
    ),
    (
        Row("maskformer", "MaskFormerForInstanceSegmentation", "image-segmentation"),
        lambda m: m.segment(IMAGE),
    ),
    (
        Row("detr", "DetrForSegmentation", "image-segmentation", "masks", tiny_checkpoint.DETR_MASKS),
        lambda m: m.segment(IMAGE),
    ),
    (Row("vitpose", "VitPoseForPoseEstimation", "pose-estimation"), lambda m: m.pose(IMAGE)),
    (
        Row("mask2former", "Mask2FormerForUniversalSegmentation", "image-segmentation"),
        lambda m: m.segment(IMAGE),
    ),
    (Row("sam", "SamModel", "mask-generation"), lambda m: m.masks(IMAGE, {"points": [[1, 2]]})),
    (Row("clip", "CLIPModel", "zero-shot-image-classification"), lambda m: m.embed_image(IMAGE)),
    (Row("clip", "CLIPModel", "zero-shot-image-classification"), lambda m: m.match(IMAGE, ["a", "b"])),
]
DECODERS = [
    (Row("gpt2", "GPT2LMHeadModel", "text-generation"), lambda m: m.score("the cat")),
    (Row("t5", "T5ForConditionalGeneration", "text2text-generation"), lambda m: m.score("the", "cat")),
    (
        Row("whisper", "WhisperForConditionalGeneration", "automatic-speech-recognition"),
        lambda m: m.transcribe(np.zeros(100)),
    ),
]


def without_processors(model):
    """The model, with an image or a sound of zeros for any, and labels of entailment."""
    for session in model.sessions.values():
        for name, port in session.inputs.items():
            shape = port.shape[1:]
            if name == "pixel_values":
                shape = [size if isinstance(size, int) else 30 for size in shape]
                image = Prepared(zeros(shape, [0])[0], *shape[1:], *shape[1:])
                model.bundle.files.images = SimpleNamespace(
                    pixels=partial(zeros, shape),
                    inputs=partial(zeros_by_name, name, shape),
                    prepared=lambda source, image=image: image,
                    boxed=(shape[1], shape[2]),
                    boxed_values=lambda source, boxes, shape=shape: zeros(shape, boxes),
                    on_white=False,
                    kind="DetrImageProcessor",
                )
            if name in ("input_values", "input_features"):
                features = partial(zeros, shape)
                inputs = partial(zeros_by_name, name, shape)
                extractor = SimpleNamespace(
                    features=features, inputs=inputs, hop=160, port=name, rank=len(port.shape), masked=False
                )
                model.bundle.files.extractor = extractor
    model.bundle.files.config = model.config | {"id2label": {"0": "entailment", "1": "neutral"}}
    return model


def zeros(shape, items, truncate=None):
    """Zeros (B, *shape) float32 for B items."""
    return np.zeros((len(items), *shape), np.float32)


def zeros_by_name(name, shape, items, truncate=None):
    """The same, as the inputs of a graph."""
    return {name: zeros(shape, items)}


@pytest.mark.parametrize(("row", "call"), ENCODERS, ids=lambda value: getattr(value, "id", ""))
def test_no_answer_is_made_of_what_is_no_number(row, call, model_of, monkeypatch):
    model, run = without_processors(model_of(row)), Session.run
    call(model)

    def broken(self, inputs):
        found = run(self, inputs)
        next(iter(found.values())).flat[0] = np.nan
        return found

    monkeypatch.setattr(Session, "run", broken)
    with pytest.raises(InputError, match=NAN):
        call(model)


@pytest.mark.parametrize(("row", "call"), DECODERS, ids=lambda value: getattr(value, "id", ""))
def test_no_answer_is_decoded_from_what_is_no_number(row, call, model_of, monkeypatch):
    model, run = without_processors(model_of(row)), StaticCache._run
    call(model)

    def broken(self, *inputs, **options):
        logits = run(self, *inputs, **options)
        logits.flat[0] = np.nan
        return logits

    monkeypatch.setattr(StaticCache, "_run", broken)
    with pytest.raises(InputError, match=NAN):
        call(model)


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_no_token_is_chosen_by_what_is_no_number(cache, tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "gpt2", tiny_checkpoint.FAMILIES["gpt2"][0])
    weights = load_file(tmp_path / "in" / "model.safetensors")
    largest = max(abs(array).max() for array in weights.values())
    huge = {name: array * np.float32(9e14 / largest) for name, array in weights.items()}
    save_file(huge, tmp_path / "in" / "model.safetensors", {"format": "pt"})
    txexport.export(tmp_path / "in", tmp_path / "out", cache=cache)
    model = txexport.load(tmp_path / "out", device="cpu", threads=1)
    for options in ({}, {"do_sample": True}, {"num_beams": 2}):
        with pytest.raises(InputError, match=NAN):
            model.generate_ids([[5, 6]], max_new_tokens=2, **options)
    for call in (model.score, lambda text: list(model.stream(text))):
        with pytest.raises(InputError, match=NAN):
            call("the cat")
    assert len(model.generate_ids([[5, 6]], max_new_tokens=2, remove_invalid_values=True)[0]) == 2
