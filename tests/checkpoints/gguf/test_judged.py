"""GGUF files compared with the gguf package and transformers; and a bundle of one, verified."""

import json
import re
import shutil

import numpy as np
import pytest
import tiny_checkpoint
import tiny_gguf
import torch
from tiny_gguf import every

import txexport
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError

JUDGED = {
    "llama": ("LlamaForCausalLM", 12),
    "qwen2": ("Qwen2ForCausalLM", 13),
    "qwen3": ("Qwen3ForCausalLM", 11),
    "phi3": ("Phi3ForCausalLM", 14),
    "gemma2": ("Gemma2ForCausalLM", 10),
    "gpt2": ("GPT2LMHeadModel", 8),
    "starcoder2": ("Starcoder2ForCausalLM", 3),
    "falcon": ("FalconForCausalLM", 2),
    "bloom": ("BloomForCausalLM", 20),
}
WIDE = {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2}
NARROW = {"hidden_size": 64, "num_attention_heads": 4}
SIZES = {"gpt2": {"n_embd": 64, "n_head": 4, "n_inner": 256}, "falcon": NARROW, "bloom": NARROW}
SIZES |= {"starcoder2": WIDE | {"sliding_window": None}, "gemma2": WIDE | {"query_pre_attn_scalar": 10}}


@pytest.mark.parametrize("row", JUDGED)
def test_packed_tensors_are_those_that_transformers_reads(row, tmp_path):
    """Its own reader, with the names and the loops of the gguf package."""
    pytest.importorskip("gguf", reason="the gguf package is not installed")
    import transformers
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    name, kind = JUDGED[row]
    tiny_checkpoint.save(tmp_path / "original", row, **SIZES.get(row, WIDE))
    file = tiny_gguf.convert(tmp_path / "original", tmp_path / "model.gguf", every(kind))
    values = load_gguf_checkpoint(str(file))["config"]
    with torch.device("meta"):
        empty = getattr(transformers, name)(transformers.AutoConfig.for_model(**values))
    expected = load_gguf_checkpoint(str(file), return_tensors=True, model_to_load=empty)["tensors"]
    checkpoint = Checkpoint(file)
    assert checkpoint.tensors.keys() == expected.keys()
    for tensor in checkpoint.tensors:
        read, theirs = checkpoint.read(tensor), expected[tensor].numpy()
        turned = row == "gpt2" and re.search(r"c_(attn|proj|fc)\.weight", tensor)
        assert np.array_equal(read.T if turned else read, theirs), tensor
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "bos_token_id", "eos_token_id"):
        if key in values and key in checkpoint.config:
            assert values[key] == checkpoint.config[key], key


@pytest.mark.parametrize("row", ["llama", "gpt2", "gemma2"])
def test_names_are_those_of_the_gguf_package(row, tmp_path):
    """The reader is tested with the tensor names of the writer here."""
    gguf = pytest.importorskip("gguf", reason="the gguf package is not installed")
    original = tmp_path / "original"
    tiny_checkpoint.save(original, row)
    file = tiny_gguf.convert(original, tmp_path / "model.gguf")
    architecture = next(a for a, name in gguf.MODEL_ARCH_NAMES.items() if name == row)
    known = gguf.get_tensor_name_map(architecture, 3)
    read = {tensor.name for tensor in gguf.GGUFReader(file).tensors}
    assert read == {
        f"{known.get_name(name.rsplit('.', 1)[0])}.{name.rsplit('.', 1)[1]}"
        for name in Checkpoint(original).tensors
    }


PACKS = {
    "llama": (12, WIDE | {"num_hidden_layers": 1}),
    "gpt2": (8, {"n_embd": 64, "n_head": 4, "n_inner": 96}),
}


@pytest.mark.parametrize("row", PACKS)
def test_a_packed_file_becomes_a_bundle_that_is_proved(row, tmp_path):
    """From a folder of one file, by both references, and by the file's hash alone."""
    kind, config = PACKS[row]
    tiny_checkpoint.save(tmp_path / "original", row, **config)
    (tmp_path / "source").mkdir()
    file = tiny_gguf.convert(tmp_path / "original", tmp_path / "source/model.gguf", every(kind))
    manifest = txexport.export(tmp_path / "source", tmp_path / "out")
    assert manifest.source.path == "../source/model.gguf"
    assert file.is_file()
    assert list(manifest.source.sha256) == ["model.gguf"]
    report = txexport.verify(tmp_path / "out", cases="quick")
    assert report.verdict == "equal"
    assert {"twin", "transformers"} <= set(report.references)
    assert {case.name for case in report.cases if case.skipped} == {
        "tokenizer",
        "chat template",
    }  # made of it
    assert json.loads((tmp_path / "out/config.json").read_text())["model_type"] == row
    assert txexport.load(tmp_path / "out").generate("the cat", max_new_tokens=3)
    weights = txexport.inspect(file).weights.checkpoint
    assert weights is not None
    assert weights.keys() == {"F32", {12: "Q4_K", 8: "Q8_0"}[kind]}
    moved = shutil.copy(file, tmp_path / "model.gguf")
    data = bytearray(file.read_bytes())
    data[-40] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"is not what was exported: model.gguf differs"):
        txexport.verify(tmp_path / "out", cases="quick", reference="twin")
    assert txexport.verify(tmp_path / "out", cases="quick", source=moved, reference="twin").verdict == "equal"
