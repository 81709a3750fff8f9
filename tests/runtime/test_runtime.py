"""Bundles embedded in an application."""

import dataclasses
import gc
import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from helpers.bundle_edits import graph_path, relist, weights_path
from helpers.rows import GENERATE, Row
from tokenizers import Tokenizer

import txexport
from txexport.errors import BundleError, InputError
from txexport.exporter import export
from txexport.runtime.engines.onnxruntime import OnnxRuntime, cuda_present
from txexport.runtime.generation.kv_cache import StaticCache

CACHES = ["static", "dynamic"]


@pytest.fixture
def model_of(bundle_of):
    """A function from a model_type and a cache to a freshly loaded Model without end-of-sequence token."""

    def get(model_type: str, cache: str | None = None):
        model = txexport.load(bundle_of(model_type, cache), device="cpu")
        model.bundle.files.generation_config = dataclasses.replace(model.generation_config, eos_token_id=())
        return model

    return get


def test_run_names_what_does_not_fit(model_of):
    model = model_of("bert")
    ids = np.ones((1, 3), np.int64)
    with pytest.raises(InputError, match="unknown ids; missing attention_mask, input_ids, token_type_ids"):
        model.run(ids=ids)
    floats = r"input 'input_ids' is float32 \(1, 3\), expected int64 \(batch_size, sequence_length\)"
    with pytest.raises(InputError, match=floats):
        model.run(input_ids=ids.astype(np.float32), attention_mask=ids, token_type_ids=0 * ids)
    with pytest.raises(InputError, match=r"input 'input_ids' is int64 \(3,\), expected"):
        model.run(input_ids=ids[0], attention_mask=ids, token_type_ids=0 * ids)
    narrow = {name: ids.astype(np.int32) for name in ("input_ids", "attention_mask")}
    assert model.run(**narrow, token_type_ids=0 * ids)["last_hidden_state"].shape == (1, 3, 48)
    with pytest.raises(InputError, match="no graph 'decoder_model'; expected one of model"):
        model.run("decoder_model", input_ids=ids)
    with pytest.raises(InputError, match="which graph"):
        model_of("bart").run(input_ids=ids)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("model_type", ["gpt2", "bart"])
def test_rows_do_not_disturb_each_other(model_type, cache, model_of):
    model = model_of(model_type, cache)
    rows = [[5, 6, 7], [9], list(range(20, 31))]
    together = model.generate_ids(rows, max_new_tokens=20)
    assert together == [model.generate_ids([row], max_new_tokens=20)[0] for row in rows]
    assert {len(tokens) for tokens in together} == {20}


@pytest.mark.parametrize("model_type", ["gpt2", "bart"])
def test_both_caches_generate_the_same(model_type, model_of):
    rows = [[5, 6, 7], [9, 10]]
    found = [model_of(model_type, cache).generate_ids(rows, max_new_tokens=25) for cache in CACHES]
    assert found[0] == found[1]


@pytest.mark.parametrize("cache", CACHES)
def test_row_ends_with_its_own_end_of_sequence(cache, model_of):
    model = model_of("gpt2", cache)
    rows = [[5, 6, 7], [9], [40, 41]]
    free = model.generate_ids(rows, max_new_tokens=15)
    eos = free[1][3]
    model.bundle.files.generation_config = dataclasses.replace(model.generation_config, eos_token_id=(eos,))
    for tokens, whole in zip(model.generate_ids(rows, max_new_tokens=15), free, strict=True):
        assert tokens == (whole[: whole.index(eos) + 1] if eos in whole else whole)


def test_static_cache_grows_and_keeps_what_it_holds(model_of, monkeypatch):
    model = model_of("gpt2", "static")
    expected = model.generate_ids([[5, 6, 7], [9]], max_new_tokens=30)
    capacities = []
    reserve = StaticCache._reserve

    def watched(self, needed):
        reserve(self, needed)
        capacities.append(self.capacity)

    monkeypatch.setattr("txexport.runtime.generation.prefill.CAPACITY", 1)
    monkeypatch.setattr(StaticCache, "_reserve", watched)
    assert model.generate_ids([[5, 6, 7], [9]], max_new_tokens=30) == expected
    assert sorted(set(capacities)) == [4, 6, 12, 24, 48]  # the prompt, its room, then twice that


def test_static_cache_is_written_in_place(model_of):
    """A copy each step would cost what the static cache is there to save."""
    model = model_of("gpt2", "static")
    cache = StaticCache(model.sessions["model"], {}, batch=1, capacity=16)
    before = {name: value.data_ptr() for name, value in cache.buffers.items()}
    cache.step(np.array([[5, 6, 7]]), np.array([3]))
    cache.step(np.array([[8]]), np.array([1]))
    assert {name: value.data_ptr() for name, value in cache.buffers.items()} == before
    for value in cache.buffers.values():
        filled = np.abs(value.numpy()).sum(axis=(0, 1, 3)) > 0
        assert filled.tolist() == [True] * 4 + [False] * 12


def test_static_cache_of_a_padded_step_is_not_copied(model_of, capfd):
    options = ort.SessionOptions()
    options.log_severity_level = 2  # ONNX Runtime warns of each copy
    model = model_of("gpt2", "static")
    session = model.sessions["model"]
    session.engine = OnnxRuntime(
        ort.InferenceSession(graph_path(model.folder), options, providers=["CPUExecutionProvider"])
    )
    model.generate_ids([[5, 6, 7], [9]], max_new_tokens=5)
    assert "copying past_cache" not in capfd.readouterr().err


LIMITS = [
    ("gpt2", [list(range(41))], None, "a prompt of 41 tokens leaves no room in the model's 40"),
    ("gpt2", [list(range(40))], 2, "a prompt of 40 tokens and 2 new ones exceed the model's 40"),
    ("gpt2", [[5]], 40, "a prompt of 1 token and 40 new ones exceed the model's 40"),
    ("gpt2", [[5] * 40], 2, "a prompt of 40 tokens and 2 new ones exceed the model's 40"),
    ("gpt2", [[5] * 30], 11, "a prompt of 30 tokens and 11 new ones exceed the model's 40"),
    ("gpt2", [[5]], 0, "max_new_tokens is 0, expected a whole number of at least 1"),
    ("gpt2", [[5], []], 4, "a row has no tokens; every row needs at least one"),
    ("gpt2", [[5, -1]], 4, "token ids run from -1 to 5, expected 0 to 310"),
    ("bart", [[5], [311]], 4, "token ids run from 311 to 311, expected 0 to 310"),
    ("bart", [[5] * 41], 4, "an input of 41 tokens is longer than the model's 40"),
]


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(("model_type", "rows", "new", "said"), LIMITS, ids=[row[3] for row in LIMITS])
def test_lengths_are_never_cut_silently(model_type, rows, new, said, cache, model_of):
    with pytest.raises(InputError, match=said):
        model_of(model_type, cache).generate_ids(rows, max_new_tokens=new)


@pytest.mark.parametrize("cache", CACHES)
def test_generation_reaches_the_last_position(cache, model_of):
    model = model_of("gpt2", cache)
    assert [len(row) for row in model.generate_ids([[5] * 10, [6]], max_new_tokens=30)] == [30, 30]
    assert [len(row) for row in model.generate_ids([[5] * 35, [6]])] == [5, 20]


def test_no_rows_give_no_rows(model_of):
    assert model_of("gpt2").generate_ids([]) == []


def test_encoder_does_not_generate(model_of):
    model = model_of("bert")
    message = r"for feature-extraction \(use embed\); generate needs an export with --task text-generation"
    for call in (model.generate, model.score, model.chat, lambda rows: list(model.stream_many(rows))):
        with pytest.raises(InputError, match=message):
            call(["the cat"])
    with pytest.raises(InputError, match=message):
        model.generate_ids([[5]])
    with pytest.raises(InputError, match=message):
        list(model.stream_chat([{"role": "user", "content": "the cat"}]))


def test_generate_is_text_in_and_text_out(model_of, bundle_of):
    model = model_of("gpt2")
    tokenizer = Tokenizer.from_file(str(bundle_of("gpt2") / "tokenizer.json"))
    prompts = ["the cat", "the dog lay on"]
    ids = model.generate_ids([tokenizer.encode(prompt).ids for prompt in prompts], max_new_tokens=6)
    texts = model.generate(prompts, max_new_tokens=6)
    assert texts == [tokenizer.decode(row) for row in ids]
    assert model.generate(prompts[0], max_new_tokens=6) == texts[0]


def with_settings(folder, tmp_path, **settings):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "generation_config.json").write_text(json.dumps(settings))
    return txexport.load(relist(copy), device="cpu")


def test_generation_settings_of_the_checkpoint_count(bundle_of, tmp_path):
    model = with_settings(
        bundle_of("bart"),
        tmp_path,
        decoder_start_token_id=2,
        forced_bos_token_id=17,
        forced_eos_token_id=2,
        eos_token_id=[2, 3],
        max_length=9,
    )
    tokens = model.generate_ids([[5, 6, 7]])[0]
    assert tokens[0] == 17
    assert tokens[-1] in (2, 3)
    assert len(tokens) <= 8


def test_generation_config_stands_in_place_of_config(bundle_of, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(bundle_of("gpt2"), copy)
    config = json.loads((copy / "config.json").read_text())
    config |= {"eos_token_id": 3, "forced_bos_token_id": 17, "max_length": 9}
    (copy / "config.json").write_text(json.dumps(config))
    (copy / "generation_config.json").write_text("{}")
    ours = txexport.load(relist(copy), device="cpu").generation_config
    assert (ours.eos_token_id, ours.forced_bos_token_id, ours.max_length) == ((), None, None)
    (copy / "generation_config.json").unlink()
    ours = txexport.load(relist(copy), device="cpu").generation_config
    assert (ours.eos_token_id, ours.forced_bos_token_id, ours.max_length) == ((3,), 17, 9)


def test_settings_that_are_left_out_are_said(bundle_of, tmp_path):
    model = with_settings(bundle_of("gpt2"), tmp_path, guidance_scale=4, penalty_alpha=0.3)
    with pytest.warns(UserWarning, match="generation ignores penalty_alpha=0.3, guidance_scale=4"):
        model.generate_ids([[5]], max_new_tokens=2)


def test_a_warning_is_of_the_callers_line(bundle_of, tmp_path, monkeypatch):
    """Else the line that it names is one of ours, where nobody can change anything."""
    model = with_settings(bundle_of("gpt2"), tmp_path, guidance_scale=4)
    there = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: there)
    monkeypatch.setattr("txexport.runtime.engines.onnxruntime.cuda_present", lambda: True)
    options = {"max_new_tokens": 2, "top_p": 0.5}
    calls = [
        lambda: model.generate(["the cat"], **options),
        lambda: model.generate_ids([[5]], **options),
        lambda: list(model.stream_many(["the cat"], **options)),
        lambda: model.score(["the cat"]),
        lambda: txexport.load(model.folder, check=False),
    ]
    for call, count in zip(calls, (2, 2, 2, 1, 1), strict=True):
        with pytest.warns(UserWarning, match="(generation|top_p|running)") as told:
            call()
        # A build without CUDA adds a message of its own where it is asked for one.
        ours = [warning for warning in told if "Specified provider" not in str(warning.message)]
        assert [warning.filename for warning in ours] == [__file__] * count


def test_bundle_without_tokenizer_still_takes_ids(bundle_of, tmp_path):
    shutil.copytree(bundle_of("gpt2"), tmp_path / "copy")
    (tmp_path / "copy" / "tokenizer.json").unlink()
    model = txexport.load(relist(tmp_path / "copy"), device="cpu")
    assert len(model.generate_ids([[5]], max_new_tokens=3)[0]) == 3
    with pytest.raises(BundleError, match=r"has no tokenizer\.json"):
        model.generate("the cat")


def test_embed_pools_as_asked(model_of):
    model = model_of("bert")
    texts = ["the cat sat on the mat", "the dog"]
    with pytest.raises(InputError, match="does not say how to pool; choose pooling, as 'mean' or 'cls'"):
        model.embed(texts)
    with pytest.raises(InputError, match="pooling 'median' is not known"):
        model.embed(texts, pooling="median")
    for text, cls, mean in zip(
        texts, model.embed(texts, pooling="cls"), model.embed(texts, pooling="mean"), strict=True
    ):
        ids = np.array([model.text.encode([text])[0].ids])
        ones = np.ones_like(ids)
        hidden = model.run(input_ids=ids, attention_mask=ones, token_type_ids=0 * ids)["last_hidden_state"][0]
        assert np.abs(hidden[0] - cls).max() < 1e-5
        assert np.abs(hidden.mean(axis=0) - mean).max() < 1e-5
    unit = model.embed(texts, pooling="mean", normalize=True)
    assert np.abs(np.linalg.norm(unit, axis=1) - 1).max() < 1e-6
    assert model.embed(texts[0], pooling="cls").shape == (48,)
    assert model.embed([], pooling="cls").shape == (0, 48)


def test_embed_needs_hidden_states(model_of):
    with pytest.raises(InputError, match=r"is for text-generation .* needs an export with --task feature"):
        model_of("gpt2").embed("the cat")
    with pytest.raises(InputError, match=r"is for image-feature-extraction \(use embed_image\); embed needs"):
        model_of("vit").embed("the cat", pooling="mean")


POOLINGS = [
    ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
    ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
    ({"pooling_mode": "cls"}, "cls"),
    ({"pooling_mode_max_tokens": True}, "max"),
    ({"pooling_mode": "lasttoken"}, "lasttoken"),
    ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, None),
    ({"pooling_mode": "median"}, None),
]


@pytest.mark.parametrize(("config", "method"), POOLINGS, ids=[str(row[0]) for row in POOLINGS])
def test_pooling_is_what_the_checkpoint_says(config, method, bundle_of, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(bundle_of("bert"), folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(config))
    kinds = ["Transformer", "Pooling"]
    modules = [{"type": f"sentence_transformers.models.{kind}", "path": "1_Pooling"} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    model = txexport.load(relist(folder), device="cpu")
    if method is None:
        with pytest.raises((BundleError, InputError), match="pooling"):
            model.embed("the cat")
    else:
        assert np.array_equal(model.embed("the cat"), model.embed("the cat", pooling=method, normalize=False))


def test_unknown_module_of_a_sentence_encoder_is_refused(bundle_of, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(bundle_of("bert"), folder)
    (folder / "modules.json").write_text(
        json.dumps([{"type": "sentence_transformers.models.CNN", "path": ""}])
    )
    with pytest.raises(BundleError, match="module CNN is not supported"):
        txexport.load(relist(folder), device="cpu").embed("the cat")


def test_texts_too_long_are_an_error_or_cut_on_request(model_of):
    model = model_of("bert")
    text = "the cat sat on the mat " * 20
    with pytest.raises(
        InputError, match=r"a text of \d+ tokens is longer than 40; shorten it, or cut it with truncate=True"
    ):
        model.embed(text, pooling="mean")
    encoding = model.text.encode([text])[0]
    assert len(encoding.ids) > 40
    ids = np.array([encoding.ids[:40]])
    ones = np.ones_like(ids)
    hidden = model.run(input_ids=ids, attention_mask=ones, token_type_ids=0 * ids)["last_hidden_state"][0]
    cut = model.embed(text, pooling="mean", truncate=True)
    assert np.abs(cut - hidden.mean(axis=0)).max() < 1e-5


def test_embed_answers_in_order_whatever_the_batches(model_of):
    model = model_of("bert")
    texts = ["the " * n for n in (9, 1, 5, 3, 9, 2, 7)]
    whole = model.embed(texts, pooling="mean")
    assert np.abs(model.embed(texts, pooling="mean", batch_tokens=20) - whole).max() < 1e-5
    for text, vector in zip(texts, whole, strict=True):
        assert np.abs(model.embed(text, pooling="mean") - vector).max() < 1e-5


def test_unknown_device(bundle_of):
    for device, advice in (("tpu", ""), ("gpu", r".*; NVIDIA's GPUs are cuda$")):
        message = f"device '{device}' is not there; this ONNX Runtime has cpu{advice}"
        with pytest.raises(InputError, match=message):
            txexport.load(bundle_of("bert"), device=device)


@pytest.mark.parametrize("cache", ["static", "dynamic"])
@pytest.mark.parametrize("name", ["openvino", "OpenVINOExecutionProvider"])
def test_another_provider_is_used_by_name(name, cache, model_of, monkeypatch):
    """The CPU stands in for it: what counts is what ONNX Runtime is asked for, and that values fit."""
    import onnxruntime

    asked = []

    class Renamed(onnxruntime.InferenceSession):
        def __init__(self, path, options, providers):
            asked.append(providers)
            super().__init__(path, options, providers=["CPUExecutionProvider"])

        def get_providers(self):
            return ["OpenVINOExecutionProvider", "CPUExecutionProvider"]

    original = model_of("gpt2", cache)
    expected = original.generate_ids([[5, 6, 7], [9]], num_beams=2, max_new_tokens=6)
    there = ["OpenVINOExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: there)
    monkeypatch.setattr("onnxruntime.InferenceSession", Renamed)
    model = txexport.load(original.folder, device=name)
    assert model.device == "openvino"
    assert asked == [there]
    assert model.generate_ids([[5, 6, 7], [9]], num_beams=2, max_new_tokens=6) == expected
    with pytest.raises(InputError, match="device 'coreml' is not there; this ONNX Runtime has cpu, openvino"):
        txexport.load(model.folder, device="coreml")


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_does_not_start_is_one_line(bundle_of, monkeypatch):
    """ONNX Runtime goes on with the CPU in silence."""
    there = ["XnnpackExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: there)
    with pytest.raises(InputError, match="cannot start XnnpackExecutionProvider here"):
        txexport.load(bundle_of("bert"), device="xnnpack")


def test_cuda_of_another_onnx_runtime_is_said(bundle_of, monkeypatch):
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(
        InputError, match=r"'cuda' is not there; .* has cpu; pip install '\.\[gpu\]' .* brings one"
    ):
        txexport.load(bundle_of("bert"), device="cuda")
    assert txexport.load(bundle_of("bert")).device == "cpu"


@pytest.mark.skipif(cuda_present(), reason="this machine has CUDA")
@pytest.mark.filterwarnings("ignore:Specified provider")
def test_cuda_that_does_not_start_is_said(bundle_of, monkeypatch):
    there = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: there)
    with pytest.raises(InputError, match="cannot start CUDA here; it needs a device, CUDA 13 and cuDNN 9"):
        txexport.load(bundle_of("bert"), device="cuda")
    assert txexport.load(bundle_of("bert")).device == "cpu"
    monkeypatch.setattr(
        "txexport.runtime.engines.onnxruntime.cuda_present", lambda: True
    )  # a driver without libraries
    with pytest.warns(UserWarning, match="running on the CPU: ONNX Runtime cannot start CUDA here"):
        assert txexport.load(bundle_of("bert")).device == "cpu"


BAD_ROWS = [[5, 6], [[5.7]], [["the"]], 3, [None]]


@pytest.mark.parametrize("rows", BAD_ROWS, ids=str)
def test_rows_that_are_no_token_ids(rows, model_of):
    with pytest.raises(InputError, match="token ids are not rows of whole numbers"):
        model_of("gpt2").generate_ids(rows)


def test_rows_may_be_arrays(model_of):
    model = model_of("gpt2")
    rows = [[5, 6], [7, 8]]
    expected = model.generate_ids(rows, max_new_tokens=5)
    assert model.generate_ids(np.array(rows, np.int32), max_new_tokens=5) == expected


@pytest.mark.parametrize("texts", [[None], [b"x"], [("a", "b")], "\ud800"], ids=str)
def test_texts_that_are_no_text(texts, model_of):
    with pytest.raises(InputError, match="a text is"):
        model_of("bert").embed(texts, pooling="mean")
    with pytest.raises(InputError, match="a text is"):
        model_of("gpt2").generate(texts)


def test_text_with_more_words_than_the_model_knows(bundle_of, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(bundle_of("gpt2"), copy)
    tokenizer = Tokenizer.from_file(str(copy / "tokenizer.json"))
    tokenizer.add_tokens([f"[extra{i}]" for i in range(60)])
    tokenizer.save(str(copy / "tokenizer.json"))
    with pytest.raises(InputError, match=r"token ids run from \d+ to \d+, expected 0 to 310"):
        txexport.load(relist(copy), device="cpu").generate("the [extra59]")


DAMAGED = [
    ("generation_config.json", "[]", "holds a list, expected a dict"),
    ("generation_config.json", '{"max_length": "20"}', "max_length is '20', expected a whole number"),
    ("tokenizer.json", "{}", "tokenizer.json cannot be read"),
]


@pytest.mark.parametrize(("name", "text", "said"), DAMAGED, ids=[row[1] for row in DAMAGED])
def test_damaged_settings_are_one_line(name, text, said, bundle_of, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(bundle_of("gpt2"), copy)
    (copy / name).write_text(text)
    with pytest.raises(BundleError, match=said) as caught:
        txexport.load(relist(copy), device="cpu").generate("the cat")
    assert "\n" not in str(caught.value)


def test_dimensions_must_agree(model_of):
    model = model_of("bert")
    ids = np.ones((2, 3), np.int64)
    with pytest.raises(InputError, match="batch_size is 1 in input 'attention_mask', but 2 in 'input_ids'"):
        model.run(input_ids=ids, attention_mask=ids[:1], token_type_ids=0 * ids)
    long = np.ones((1, 41), np.int64)
    with pytest.raises(InputError, match="an input of 41 tokens is longer than the model's 40"):
        model.run(input_ids=long, attention_mask=long, token_type_ids=0 * long)


def test_text_without_tokens(model_of):
    with pytest.raises(InputError, match="a text has no tokens: ''"):
        model_of("bert").embed(["the cat", ""], pooling="mean")


def test_batch_tokens_must_be_positive(model_of):
    with pytest.raises(InputError, match="batch_tokens is 0, expected at least 1"):
        model_of("bert").embed(["the"], pooling="mean", batch_tokens=0)


@pytest.mark.skipif(not cuda_present(), reason="no CUDA device")
@pytest.mark.parametrize(
    ("model_type", "cache"), [("bert", None), *((m, c) for m in ("gpt2", "bart") for c in CACHES)]
)
def test_cuda_equals_the_twin(model_type, cache, bundle_of):
    assert txexport.verify(bundle_of(model_type, cache), device="cuda").ok


def test_threads_are_limited(bundle_of):
    model = txexport.load(bundle_of("bert"), device="cpu", threads=1)
    assert model.sessions["model"].engine.session.get_session_options().intra_op_num_threads == 1


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be removed on Windows")
def test_loaded_model_does_not_need_its_folder(bundle_of, tmp_path):
    shutil.copytree(bundle_of("bert"), tmp_path / "copy")
    model = txexport.load(tmp_path / "copy", device="cpu")
    ids = np.ones((1, 3), np.int64)
    before = model.run(input_ids=ids, attention_mask=ids, token_type_ids=0 * ids)
    shutil.rmtree(tmp_path / "copy")
    after = model.run(input_ids=ids, attention_mask=ids, token_type_ids=0 * ids)
    assert np.array_equal(before["last_hidden_state"], after["last_hidden_state"])


def test_altered_bundle_is_one_line(bundle_of, tmp_path):
    """A file from another export beside these would compute something, and nobody would know what."""
    copy = tmp_path / "copy"
    shutil.copytree(bundle_of("gpt2"), copy)
    file = graph_path(copy)
    graph = file.read_bytes()
    file.write_bytes(graph.replace(b"gelu_tanh", b"gelu_tanj"))
    with pytest.raises(
        BundleError, match=r"model_static\.onnx is not the file that was exported; export again"
    ):
        txexport.load(copy, device="cpu")
    file.write_bytes(graph)
    with weights_path(copy).open("ab") as file:
        file.write(b"more")
    with pytest.raises(BundleError, match=r"model\.onnx_data is [\d,]+ bytes, expected"):
        txexport.load(copy, device="cpu")


def test_several_threads_may_ask_at_once(model_of):
    model = model_of("gpt2")
    prompts = [[[5, 6, 7]], [[9, 10]], [[20]], [[40, 41, 42]]]
    expected = [model.generate_ids(rows, max_new_tokens=12) for rows in prompts]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = list(pool.map(lambda rows: model.generate_ids(rows, max_new_tokens=12), prompts))
            assert found == expected


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_closing_gives_memory_back(checkpoint_of, tmp_path):
    """Five models of 30 MB, one after another, hold no more than one does."""
    row = Row("gpt2", "GPT2LMHeadModel", GENERATE, "wide", {"n_embd": 768, "n_inner": 3072, "n_head": 12})
    export(checkpoint_of(row), tmp_path / "out", only="native")
    held = []
    for _ in range(5):
        with txexport.load(tmp_path / "out", device="cpu", threads=1) as model:
            model.generate_ids([[5, 6, 7]], max_new_tokens=2)
            size = weights_path(tmp_path / "out").stat().st_size
        gc.collect()
        held.append(resident())
    assert size > 30e6
    assert held[-1] - held[1] < size
    with pytest.raises(InputError, match="is closed; load it again"):
        model.generate_ids([[5]])
