"""Offsets in a weight file: single bytes first, wider types at a multiple of their size."""

import pytest
import tiny_checkpoint
from tiny_quantised import FORMATS, gptq, quantised, tiny_llama

import txexport
from txexport.checkpoints.checkpoint import read_header
from txexport.checkpoints.stored import SIZES

WIDE = {name: size for name, size in SIZES.items() if size > 1}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "int4"])
def test_of_odd_matrices(dtype, tmp_path):
    tiny_checkpoint.save(tmp_path / "source", "bert", vocab_size=311, hidden_size=45, num_attention_heads=3)
    manifest = txexport.export(tmp_path / "source", tmp_path / "out", dtype=dtype)
    _check(tmp_path / "out", manifest)


def test_of_an_order_of_inputs(tmp_path):
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    packer = gptq(symmetric=False, act_order=True)
    quantised(source, tmp_path / "quantised", packer, FORMATS["gptq"][1] | {"sym": False})
    _check(tmp_path / "out", txexport.export(tmp_path / "quantised", tmp_path / "out"))


def _check(folder, manifest):
    for path in manifest.data:
        header = read_header(folder / path)
        assert any(one.dtype in WIDE for one in header.values())
        for name, one in header.items():
            assert one.offset % WIDE.get(one.dtype, 1) == 0, name
