"""Number formats added to an existing bundle, whose parameters stay as they are."""

import json

import pytest
import tiny_checkpoint
from click.testing import CliRunner
from safetensors.numpy import load_file

import txexport
from txexport.cli.main import main
from txexport.errors import CheckpointError, InputError


@pytest.fixture
def source(tmp_path):
    tiny_checkpoint.save(tmp_path / "source", "gpt2")
    return tmp_path / "source"


def test_quantize_gives_what_export_would(source, tmp_path):
    form = {"opset": 21, "cache": "dynamic", "keep": ["*.layers.0.*"]}
    txexport.export(source, tmp_path / "one", **form)
    told = CliRunner().invoke(main, ["quantize", str(tmp_path / "one"), "--dtype", "int8"])
    assert told.exit_code == 0, told.output
    txexport.quantize(tmp_path / "one", "int4")
    txexport.export(source, tmp_path / "all", dtype=["float32", "int8", "int4"], **form)
    files = [
        sorted((path.relative_to(folder), path.read_bytes()) for path in folder.rglob("*") if path.is_file())
        for folder in (tmp_path / "one", tmp_path / "all")
    ]
    assert files[0] == files[1]


def test_what_quantize_refuses(source, tmp_path):
    txexport.export(source, tmp_path / "out")
    with pytest.raises(InputError, match=r"has float32 already$"):
        txexport.quantize(tmp_path / "out", "float32")
    with pytest.raises(InputError, match=r"^dtype 'int3' is not known; expected one of float32, "):
        txexport.quantize(tmp_path / "out", "int3")
    config = json.loads((source / "config.json").read_text()) | {"transformers_version": "0"}
    (source / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        CheckpointError, match=r"is not what .+ was exported from; give the exported one with --source$"
    ):
        txexport.quantize(tmp_path / "out", "int8")
    assert [*txexport.load(tmp_path / "out").manifest.formats] == ["float32"]


def test_what_is_kept_is_float32(source, tmp_path):
    keep = ["*.layers.0.*", "decoder.embedding.word.*"]
    txexport.export(source, tmp_path / "out", dtype="int8", keep=keep)
    stored = load_file(tmp_path / "out" / "onnx" / "model_int8.onnx_data")
    kinds = {name: numbers.dtype.name for name, numbers in stored.items() if numbers.ndim == 2}
    whole = {name for name, kind in kinds.items() if kind == "float32"}
    assert whole >= {name for name in kinds if ".layers.0." in name or ".word." in name}
    assert {name for name in kinds if ".layers.1." in name}.isdisjoint(whole)
    with pytest.raises(InputError, match=r"^keep is 'layers', which matches no parameter, such as decoder\."):
        txexport.export(source, tmp_path / "none", dtype="int8", keep="layers")
