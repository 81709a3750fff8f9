"""Hostile checkpoints are refused in one line, before time or memory is used, and nothing is written."""

import json
import shutil
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
import tiny_checkpoint
import torch
from safetensors.torch import load_file, save_file

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint, read_header, read_json
from txexport.checkpoints.tokenizer_conversion import tokenizer_json
from txexport.errors import CheckpointError, SpecError, TxexportError, is_failure
from txexport.families import _composed
from txexport.spec import RelativeSpec

SECONDS, BYTES = 20, 64 << 20  # generous, of processor time: this once took minutes and gigabytes
LARGEST = 2**31 - 1


@pytest.fixture
def copy_of(checkpoint_of, tmp_path):
    """A function from a model_type to a checkpoint of its own, with config changes."""

    def get(model_type: str, /, **config) -> Path:
        folder = shutil.copytree(checkpoint_of(model_type), tmp_path / "checkpoint")
        values = json.loads((folder / "config.json").read_text()) | config
        (folder / "config.json").write_text(json.dumps(values))
        return folder

    return get


def refused(call, kind=TxexportError) -> str:
    """The one-line message of the error that `call` raises, soon and with little memory."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(kind) as caught:
            call()
        assert time.process_time() - start < SECONDS
        assert tracemalloc.get_traced_memory()[1] < BYTES
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 11_000
    return message


def resolve(folder: Path):
    return families.resolve(Checkpoint(folder))


PARAKEET = tiny_checkpoint.PARAKEET["encoder_config"]
LW_DETR, RF_DETR = (sizes["backbone_config"] for sizes in (tiny_checkpoint.LW_DETR, tiny_checkpoint.RF_DETR))
MANY = [
    (
        "bert",
        {"num_hidden_layers": LARGEST},
        "'num_hidden_layers' is 2147483647, but there are tensors for at",
    ),
    ("gpt2", {"n_layer": LARGEST}, "'n_layer' is 2147483647"),
    ("t5", {"num_layers": LARGEST}, "'num_layers' is 2147483647"),
    ("t5", {"num_decoder_layers": LARGEST}, "'num_decoder_layers' is 2147483647"),
    ("bart", {"encoder_layers": LARGEST}, "'encoder_layers' is 2147483647"),
    ("qwen2", {"num_hidden_layers": LARGEST}, "'num_hidden_layers' is 2147483647"),
    ("modernbert", {"num_hidden_layers": LARGEST, "layer_types": None}, "'num_hidden_layers' is"),
    ("gpt_neo", {"num_layers": LARGEST}, "'num_layers' is 2147483647"),
    ("lw_detr", {"decoder_layers": LARGEST}, "'decoder_layers' is 2147483647"),
    ("lw_detr", {"c2f_num_blocks": LARGEST}, "'c2f_num_blocks' is 2147483647"),
    ("lw_detr", {"hidden_expansion": 1e308}, "width times hidden_expansion is 2147483648"),
    ("lw_detr", {"backbone_config": LW_DETR | {"mlp_ratio": 1e308}}, "width times mlp_ratio is 2147483648"),
    ("lw_detr", {"backbone_config": {"num_hidden_layers": LARGEST}}, "'num_hidden_layers' is 2147483647"),
    ("lw_detr", {"backbone_config": {"num_windows": LARGEST**2}}, "num_windows"),
    ("rf_detr", {"backbone_config": RF_DETR | {"num_windows": -1}}, "num_windows -1 are not supported"),
    ("rf_detr", {"backbone_config": RF_DETR | {"patch_size": 0}}, "has no patch of 0"),
    ("d_fine", {"depth_mult": 1e300}, "three times 'depth_mult' is a number of more than 50 digits"),
    (
        "gpt_neo",
        {"attention_layers": None, "attention_types": [[["global"], LARGEST]]},
        "for each of 3 layers",
    ),
    ("longformer", {"num_hidden_layers": LARGEST, "attention_window": 4}, "'num_hidden_layers' is"),
    ("wav2vec2", {"conv_dim": [16, 20]}, "have [2, 3, 3] numbers, expected one each for every convolution"),
    ("wav2vec2", {key: [] for key in ("conv_dim", "conv_kernel", "conv_stride")}, "have [0, 0, 0] numbers"),
    ("wav2vec2", {"conv_dim": [16.5, 20, 24]}, "'conv_dim' is [16.5, 20, 24], expected whole numbers from 1"),
    ("wav2vec2", {"conv_stride": [5, 2, 0]}, "'conv_stride' is [5, 2, 0], expected whole numbers from 1"),
    ("sew", {"squeeze_factor": 0}, "SqueezeSpec: factor is 0"),
    ("sew", {"squeeze_factor": LARGEST}, "upsample.projection.weight' is (96, 48)"),
    ("wav2vec2-bert", {"num_hidden_layers": LARGEST}, "'num_hidden_layers' is 2147483647"),
    ("wav2vec2-bert", {"left_max_position_embeddings": -1}, "left is -1 and right 3, expected 0 or more"),
    ("wav2vec2-bert", {"conv_depthwise_kernel_size": 4}, "kernel is 4, expected an odd number"),
    ("wav2vec2-conformer", {"hidden_size": 2**30, "num_attention_heads": 2}, "width is 1073741824"),
    ("parakeet_ctc", {"encoder_config": PARAKEET | {"subsampling_factor": 2**30}}, "expected a multiple of"),
    ("mixtral", {"num_local_experts": LARGEST}, "'num_local_experts' is 2147483647"),
    ("bloom", {"hidden_size": 2**30, "n_head": 2**30}, "width is 1073741824, but no tensor is wider than"),
    ("mpt", {"d_model": 2**30, "n_heads": 2**29}, "width is 1073741824"),
    ("llama", {"head_dim": 2**30}, "a head is 1073741824"),
    ("gptj", {"rotary_dim": 2**30}, "rotary_dim is 1073741824"),
    (
        "llama",
        {"max_position_embeddings": 0},
        "config.json: 'max_position_embeddings' is 0, expected",
    ),
    ("llama", {"vocab_size": -5}, "config.json: vocab_size is -5, expected more than 0"),
    ("bert", {"vocab_size": LARGEST}, "expected (2147483647, 48)"),
    ("bert", {"hidden_size": 2**63}, "'hidden_size' is 9223372036854775808, expected at most 2147483647"),
    ("bert", {"layer_norm_eps": 10**400}, "expected a finite number"),
    ("bert", {"layer_norm_eps": float("nan")}, "'layer_norm_eps' is nan, expected a finite number"),
    ("bert", {"num_attention_heads": 0}, "cannot be split over 0 heads"),
    ("t5", {"d_model": 0}, "expected more than 0"),
    ("t5", {"d_model": -48}, "expected more than 0"),
    ("t5", {"relative_attention_max_distance": LARGEST}, "do not fit distances"),
    ("m2m_100", {"max_position_embeddings": LARGEST - 5}, "positions are computed for at most"),
    ("vit", {"patch_size": [[6], [6]]}, "expected squares"),
    ("bert", {"model_type": "a\nb\ud800\x1b[31m"}, r"model_type 'a\nb\ud800\x1b[31m' is not supported"),
    ("bert", {"model_type": "x" * 100_000}, "xxx..."),
    ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 0}}, "has no finite frequencies"),
    ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": -1.0}}, "expected a number above 0"),
    (
        "llama",
        {"rope_parameters": {"rope_type": "yarn", "factor": 2, "rope_theta": 1.0}},
        "no finite frequencies",
    ),
    ("phi", {"rope_parameters": {"partial_rotary_factor": 1e308}}, "partial_rotary_factor is"),
]


@pytest.mark.parametrize(
    ("model_type", "config", "said"), MANY, ids=[f"{m}-{list(c)}-{s}"[:60] for m, c, s in MANY]
)
def test_sizes_are_compared_with_the_tensors_first(model_type, config, said, copy_of, tmp_path):
    folder = copy_of(model_type, **config)
    assert said in refused(lambda: txexport.export(folder, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_layers_may_share_tensors(copy_of):
    """ALBERT's do, so that its layers cannot be counted by their tensors; a thousand are refused."""
    folder = copy_of("albert", num_hidden_layers=24)
    assert resolve(folder).spec.encoder.num_layers == 24
    values = json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": 1000}
    (folder / "config.json").write_text(json.dumps(values))
    assert "'num_hidden_layers' is 1000" in refused(lambda: resolve(folder))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a":' * 3000 + "1" + "}" * 3000, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "cannot be read as JSON"),
        ("[1]", "holds a list, expected an object"),
        ("\x00", "cannot be read as JSON"),
    ],
    ids=["deep", "deeper", "digits", "list", "zero"],
)
def test_json_that_is_none(text, said, tmp_path):
    (tmp_path / "config.json").write_text(text)
    assert said in refused(lambda: read_json(tmp_path / "config.json"), CheckpointError)


def test_json_of_any_length_and_what_is_no_file(tmp_path):
    with (tmp_path / "config.json").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte, and no blocks
    assert "it has 1,099,511,627,776 bytes, the limit is" in refused(
        lambda: read_json(tmp_path / "config.json")
    )
    (tmp_path / "folder.json").mkdir()
    assert "it is not a file" in refused(lambda: read_json(tmp_path / "folder.json"))


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def entry(**values) -> dict:
    return {"a": ONE | values}


HEADERS = [
    (entry(data_offsets=[-8, 0]), "data_offsets that are not a begin and an end"),
    (entry(data_offsets=[8, 0]), "data_offsets that are not a begin and an end"),
    (entry(data_offsets=[0, 8.0]), "data_offsets that are not a begin and an end"),
    (entry(data_offsets=[0, 2**70]), "data_offsets that are not a begin and an end"),
    (entry(data_offsets=8), "data_offsets that are not a begin and an end"),
    (entry(data_offsets=[2**62, 2**62 + 8]), "is truncated"),
    (entry(shape=2), "a shape that is not"),
    (entry(shape=[True, 2]), "a shape that is not"),
    (entry(shape=[-1, -2]), "a shape that is not"),
    (entry(shape=[1] * 70 + [2]), "a shape that is not up to 8 sizes"),
    (entry(shape=[3]), "does not fill its 8 bytes"),
    (entry(dtype=["F32"]), "a dtype that is no string"),
    ({"a": 3}, "has no dtype, shape and data_offsets"),
    ({"a": ONE, "b": ONE}, "tensor 'b' begins within tensor 'a'"),
    ({"a": ONE, "b": ONE | {"data_offsets": [4, 12]}}, "tensor 'b' begins within tensor 'a'"),
    ([], "its header is a list"),
]


def written(folder: Path, header: bytes, length: int | None = None) -> Path:
    file = folder / "model.safetensors"
    file.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + bytes(12))
    return file


@pytest.mark.parametrize(("header", "said"), HEADERS, ids=[str(header)[:70] for header, _ in HEADERS])
def test_headers_that_lie(header, said, tmp_path):
    file = written(tmp_path, json.dumps(header).encode())
    assert said in refused(lambda: read_header(file), CheckpointError)


@pytest.mark.parametrize("length", [0, 2**60, 2**64 - 1, 500 << 20, 99])
def test_headers_longer_than_their_file(length, tmp_path):
    message = "it ends within its header: 22 bytes; copy it" if length == 99 else "begins as no such file"
    assert message in refused(lambda: read_header(written(tmp_path, b"{}", length)))


def test_an_empty_file_of_weights_is_named(tmp_path):
    (tmp_path / "model.safetensors").touch()
    message = "model.safetensors is not a safetensors file: it is empty; copy it again"
    assert message in refused(lambda: read_header(tmp_path / "model.safetensors"))


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    file = tmp_path / "model.safetensors"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 2133470\n")
    assert "it is a pointer of Git LFS, not the weights; run git lfs pull" in refused(
        lambda: read_header(file)
    )


def test_a_header_of_half_a_gigabyte_is_not_read(tmp_path):
    file = written(tmp_path, b"{}", 500 << 20)
    with file.open("r+b") as stream:
        stream.truncate(1 << 30)
    assert "begins as no such file does" in refused(lambda: read_header(file))


def test_names_and_depth_of_headers(tmp_path):
    one = json.dumps(ONE)
    twice = f'{{"a": {one}, "a": {one}}}'.encode()
    assert "'a' appears twice" in refused(lambda: read_header(written(tmp_path, twice)))
    deep = b'{"a":' * 5000 + b"1" + b"}" * 5000
    assert "is not a safetensors file" in refused(lambda: read_header(written(tmp_path, deep)))
    name = json.dumps({"x\ny\ud800": {"dtype": 1, "shape": [], "data_offsets": [0, 1]}}).encode()
    assert r"tensor 'x\ny\ud800'" in refused(lambda: read_header(written(tmp_path, name)))


def test_a_tensor_without_numbers(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    empty = {"a": {"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]}}
    written(tmp_path, json.dumps(empty).encode())
    assert "and no values" in refused(lambda: Checkpoint(tmp_path).read("a"))


WORDS = "embeddings.word_embeddings.weight"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_named(dtype, number, copy_of, tmp_path):
    folder = copy_of("bert")
    tensors = load_file(folder / "model.safetensors")
    tensors[WORDS] = tensors[WORDS].to(dtype)
    tensors[WORDS][-1, -1] = number
    save_file(tensors, folder / "model.safetensors")
    message = refused(lambda: txexport.export(folder, tmp_path / "out"), CheckpointError)
    said = f"tensor '{WORDS}', which fills encoder.embedding.word.weight, holds NaN or infinity as float32"
    assert said in message
    assert not (tmp_path / "out").exists()


def test_weights_too_large_to_compute_with_are_named(copy_of, tmp_path):
    """A row for which PyTorch's norm gives NaN and another's does not; no case may read that row."""
    folder = copy_of("bert")
    tensors = load_file(folder / "model.safetensors")
    tensors[WORDS][-1] = -1e25
    save_file(tensors, folder / "model.safetensors")
    message = refused(lambda: txexport.export(folder, tmp_path / "out"), CheckpointError)
    assert f"tensor '{WORDS}', which fills encoder.embedding.word.weight, holds 1.0e+25; expected" in message
    tensors[WORDS][-1] = 1e15
    save_file(tensors, folder / "model.safetensors")
    txexport.export(folder, tmp_path / "out")


def test_double_weights_beyond_float32_are_named(copy_of, tmp_path):
    folder = copy_of("gpt2")
    tensors = load_file(folder / "model.safetensors")
    name = "transformer.h.1.mlp.c_fc.weight"  # which is transposed on export
    tensors[name] = tensors[name].double()
    tensors[name][3, 4] = 1e300
    save_file(tensors, folder / "model.safetensors")
    message = refused(lambda: txexport.export(folder, tmp_path / "out"), CheckpointError)
    assert f"'{name}', which fills decoder.layers.1.feed_forward.up.weight, holds" in message


def test_tied_copies_that_are_not_finite_are_named(copy_of, tmp_path):
    """NaN differs from itself, but the copies must not be reported as different."""
    folder = copy_of("gpt2")
    tensors = load_file(folder / "model.safetensors")
    tensors["transformer.wte.weight"][5, 5] = float("nan")
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()
    save_file(tensors, folder / "model.safetensors")
    assert "wte.weight', which fills" in refused(lambda: txexport.export(folder, tmp_path / "out"))


def test_what_has_no_part_in_the_mathematics_may_be_infinite(copy_of, tmp_path):
    folder = copy_of("gpt2")
    tensors = load_file(folder / "model.safetensors")
    tensors["transformer.h.1.attn.masked_bias"] = torch.tensor(float("-inf"))
    save_file(tensors, folder / "model.safetensors")
    txexport.export(folder, tmp_path / "out")
    assert (tmp_path / "out/txexport.json").is_file()


SPEC = {"num_layers": LARGEST, "num_heads": "3", "hidden_size": 48.0, "eps": float("nan"), "causal": 1}


@pytest.mark.parametrize("field", SPEC)
def test_specs_put_together_by_hand(field, checkpoint_of, tmp_path):
    """A spec in config.json: its values have their types, and are no larger than the checkpoint."""
    spec = resolve(checkpoint_of("bert")).spec
    values = _composed.config(spec)

    def change(part):
        if isinstance(part, dict):
            return {k: SPEC[field] if k == field else change(v) for k, v in part.items()}
        return [change(item) for item in part] if isinstance(part, list | tuple) else part

    (tmp_path / "config.json").write_text(json.dumps(change(values)))
    weights = {name: torch.zeros(2) for name in families.parameters(spec)}
    save_file(weights, tmp_path / "model.safetensors")
    message = refused(lambda: resolve(tmp_path))
    assert ("layers, but there are" if field == "num_layers" else "is no ") in message


def test_distances_are_bounded():
    with pytest.raises(SpecError, match="do not fit distances up to 2147483647"):
        RelativeSpec(32, LARGEST, bidirectional=True)


def broken(folder: Path, pieces: bytes, words: dict) -> Path:
    (folder / "source.spm").write_bytes(pieces)
    (folder / "vocab.json").write_text(json.dumps(words))
    return folder


def piece(text: bytes, score: float) -> bytes:
    """A piece of a SentencePiece model, in protobuf's wire format."""
    inner = b"\x0a" + bytes([len(text)]) + text + b"\x15" + struct.pack("<f", score)
    return b"\x0a" + bytes([len(inner)]) + inner


NORMALIZER = b"\x1a\x05\x12\x03abc"  # an invalid precompiled_charsmap
SPECIALS = {"</s>": 0, "<unk>": 1, "<pad>": 2}


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (piece(b"a", -1.0) + NORMALIZER, SPECIALS),
        (piece(b"\xff\xfe", -1.0) + NORMALIZER, SPECIALS),
        (piece(b"a", float("nan")) + NORMALIZER, SPECIALS),
        (piece(b"a", -1.0) + NORMALIZER, SPECIALS | {"\ud800": 3}),
        (piece(b"a", -1.0) + NORMALIZER, SPECIALS | {"a": 9_999_999}),
        (piece(b"a", -1.0) + NORMALIZER, SPECIALS | {"a": 2**70}),
    ],
    ids=["charsmap", "bytes", "nan", "surrogate", "gap", "number"],
)
@pytest.mark.filterwarnings("ignore:vocab.json lacks")
def test_pieces_that_are_broken(pieces, words, tmp_path):
    refused(lambda: tokenizer_json(broken(tmp_path, pieces, words)), CheckpointError)


def test_a_panic_in_rust_is_a_failure(tmp_path, monkeypatch):
    """As of tokenizers, whose panics `except Exception` does not catch."""
    panic = type("PanicException", (BaseException,), {})

    def fail(*args):
        raise panic("called `Option::unwrap()` on a `None` value\nbacktrace")

    broken(tmp_path, piece(b"a", -1.0), SPECIALS)
    monkeypatch.setattr("txexport.checkpoints.tokenizer_conversion.marian", fail)
    assert "no tokenizer can be made" in refused(lambda: tokenizer_json(tmp_path), CheckpointError)
    assert is_failure(panic())
    assert not is_failure(KeyboardInterrupt())
    (tmp_path / "source.spm").unlink()
    monkeypatch.setattr("txexport.checkpoints.transformers_loading.from_pretrained", fail)
    with pytest.warns(UserWarning, match="transformers could not make a tokenizer of"):
        assert tokenizer_json(tmp_path) is None
