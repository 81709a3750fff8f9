"""A quantised checkpoint is exported and verified like its dequantised one."""

import re

import numpy as np
import pytest
import tiny_checkpoint
import torch
from click.testing import CliRunner
from tiny_quantised import FORMATS, GPTQ, LLAMA, SIZES, edit, gptq, quantised, tiny_llama
from txmodels.training import checkpoints

import txexport
from txexport import bundle, families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.cli.main import main
from txexport.inspection import inspect
from txexport.verification import verify


@pytest.mark.parametrize("method", FORMATS)
def test_llama(method, tmp_path):
    """The zero biases of older GPTQ files, which the architecture does not have, are accepted."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    packer, settings = FORMATS[method]
    quantised(source, tmp_path / "quantised", packer, settings)
    checkpoint = Checkpoint(tmp_path / "quantised")
    rounding = {name for name, one in families.resolve(checkpoint).weights.items() if one.rounds(checkpoint)}
    assert len(rounding) == (7 if method in ("int-quantized", "llm.int8") else 0)
    txexport.export(tmp_path / "quantised", tmp_path / "out")
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, report
    assert {"twin", "transformers"} <= set(report.references)


OTHERS = {
    "gpt2": (
        {"n_embd": 64, "n_head": 4, "n_inner": 96, "vocab_size": 320, "n_layer": 1},
        r"attn\.c_attn|c_proj|c_fc",
    ),
    "phi3": (SIZES | {"num_hidden_layers": 1}, r"qkv_proj|o_proj|gate_up_proj|down_proj"),
    "gpt_neox": (
        {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "num_hidden_layers": 1},
        r"query_key_value|dense|dense_h_to_4h|dense_4h_to_h",
    ),
    "bert": (
        {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "num_hidden_layers": 1},
        r"query|key|value|dense",
    ),
}


@pytest.mark.parametrize("model_type", OTHERS)
def test_fused_transposed_and_encoders(model_type, tmp_path):
    """A matrix that GPT-2 stores as (in,out), and GPTQ packs as (out,in), is not transposed twice.

    Fused projections get their own blocks each.
    """
    sizes, modules = OTHERS[model_type]
    tiny_checkpoint.save(tmp_path / "float", model_type, **sizes)
    turned = model_type == "gpt2"
    packer = gptq(symmetric=False)
    if turned:
        packer = lambda random, inputs, outputs: gptq(symmetric=False)(random, outputs, inputs)  # noqa: E731
    expected = quantised(tmp_path / "float", tmp_path / "quantised", packer, GPTQ | {"sym": False}, modules)
    checkpoint = Checkpoint(tmp_path / "quantised")
    resolved = families.resolve(checkpoint)
    packed = 0
    for parameter, weight in resolved.weights.items():
        rows = np.concatenate(list(weight.rows(checkpoint)))
        assert rows.shape == weight.shape
        blocks = weight.blocks(checkpoint)
        if weight.tensors[0] in expected:
            packed += 1
            assert np.array_equal(blocks.numbers(), rows), parameter
        else:
            assert blocks is None
    assert packed == {"gpt2": 6, "phi3": 7, "gpt_neox": 6, "bert": 7}[model_type]
    txexport.export(tmp_path / "quantised", tmp_path / "out")
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, report


@pytest.mark.parametrize(("method", "matrices"), [("awq", 7), ("fp8", 0)])
def test_what_is_kept_of_a_checkpoint_is_told(method, matrices, tmp_path):
    """Float codes have no integers, and a float32 bundle must not look quantised."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    quantised(source, tmp_path / "quantised", *FORMATS[method])
    told = CliRunner().invoke(main, ["export", str(tmp_path / "quantised"), str(tmp_path / "out")])
    assert told.exit_code == 0
    line = told.stdout.splitlines()[-1]
    manifest = bundle.read(tmp_path / "out")
    if not matrices:
        assert line == "stored: no matrix keeps the checkpoint's integers, all numbers are float32"
    else:
        own, rest = (int(part.replace(",", "")) for part in re.findall(r"\(([\d,]+) bytes\)", line))
        assert line.startswith(f"stored: {matrices} matrices keep the checkpoint's integers (")
        data = [data.bytes for data in manifest.data.values()]
        assert sum(data) - 8192 < own + rest < sum(data)  # all but the headers
    facts = inspect(tmp_path / "out").bundle
    assert facts is not None
    assert facts.stored == line


def test_training_saves_nothing_like_it(tmp_path):
    """Its tensors are packed; a training result in that form is not supported."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    quantised(source, tmp_path / "quantised", *FORMATS["awq"])
    model = checkpoints.load(tmp_path / "quantised")
    with pytest.raises(txexport.TxexportError, match="is quantised; give `like` as the float checkpoint"):
        checkpoints.save(model, tmp_path / "trained", like=tmp_path / "quantised")
    checkpoints.save(model, tmp_path / "trained", like=source)
    saved, packed = Checkpoint(tmp_path / "trained"), Checkpoint(tmp_path / "quantised")
    assert all(np.array_equal(saved.read(name), packed.read(name)) for name in packed.tensors)


def test_a_bias_of_numbers_is_not_dropped(tmp_path):
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    quantised(source, tmp_path / "quantised", gptq(bias=True), GPTQ, LLAMA)
    edit(tmp_path / "quantised", lambda tensors: tensors["model.layers.0.mlp.up_proj.bias"].fill_(1))
    with pytest.raises(txexport.TxexportError, match=r"unused: model\.layers.0\.mlp\.up_proj\.bias"):
        txexport.export(tmp_path / "quantised", tmp_path / "out")


# The way in which transformers dequantises each format, the library it needs, and the rounding of its
# computation: compressed-tensors multiplies in the scales' own bfloat16, bitsandbytes with 1 / 127.
ITSELF = {
    "fp8": ("FineGrainedFP8Config", {"dequantize": True, "weight_block_size": (32, 16)}, "accelerate", 0),
    "pack-quantized": ("CompressedTensorsConfig", {"run_compressed": False}, "compressed_tensors", 2**-8),
    "int-quantized": ("CompressedTensorsConfig", {"run_compressed": False}, "compressed_tensors", 2**-8),
    "llm.int8": ("", {}, "bitsandbytes", 2**-22),
    "nf4": ("", {}, "bitsandbytes", 0),
}


@pytest.mark.parametrize("method", ITSELF)
@pytest.mark.filterwarnings("ignore")
def test_transformers_reads_the_same_by_itself(method, tmp_path):
    """For matrices whose rows are whole blocks.

    For others, bitsandbytes 0.50's AVX-512 kernel uses wrong scales, even for its own tensors.
    """
    kind, options, library, relative = ITSELF[method]
    pytest.importorskip(library)
    import transformers

    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    packer, settings = FORMATS[method]
    folder = tmp_path / "quantised"
    modules = LLAMA.replace("|down", "") if method == "nf4" else LLAMA
    expected = quantised(source, folder, packer, settings, modules)
    how = {"quantization_config": getattr(transformers, kind)(**options)} if kind else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **how)
    if library == "bitsandbytes":
        model = model.dequantize()
    state = model.state_dict()
    for name, numbers in expected.items():
        np.testing.assert_allclose(state[name].float().numpy(), numbers, rtol=relative, atol=0)
