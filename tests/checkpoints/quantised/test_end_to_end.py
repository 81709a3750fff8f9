"""A quantised checkpoint is exported and proved like the float one that it stands for."""

import numpy as np
import pytest
import tiny_checkpoint
from helpers.quantising import (
    LLAMA,
    SIZES,
    awq,
    edit,
    float8,
    four_bits,
    gptq,
    int_quantized,
    llm_int8,
    pack_quantized,
    quantised,
    tiny_llama,
    torchao,
)

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.verification import verify

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 16]}


def compressed(form: str, **weights) -> dict:
    """compressed-tensors' settings, with activations rounded to int8 where weights are."""
    tokens = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
    group = {"weights": weights, "input_activations": tokens if form == "int-quantized" else None}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}


CASES = {
    "gptq": (gptq(act_order=True, bias=True), GPTQ | {"desc_act": True}),
    "awq": (awq(), AWQ),
    "pack-quantized": (
        pack_quantized(symmetric=False),
        compressed("pack-quantized", num_bits=4, symmetric=False, group_size=32, strategy="group"),
    ),
    "int-quantized": (int_quantized, compressed("int-quantized", num_bits=8, strategy="channel")),
    "fp8": (float8(32, 16), FP8),
    "llm.int8": (llm_int8, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
    "nf4": (four_bits(nested=True), {"quant_method": "bitsandbytes", "load_in_4bit": True}),
    "torchao": (
        torchao,
        {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}},
    ),
}


@pytest.mark.parametrize("method", CASES)
def test_llama(method, tmp_path):
    """The older GPTQ's biases of zeros, which the architecture has none of, are no obstacle."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    packer, settings = CASES[method]
    quantised(source, tmp_path / "quantised", packer, settings)
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
    "bert": (
        {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "num_hidden_layers": 1},
        r"query|key|value|dense",
    ),
}


@pytest.mark.parametrize("model_type", OTHERS)
def test_fused_transposed_and_encoders(model_type, tmp_path):
    """What a float checkpoint stores (in,out), and GPTQ packs (out,in), is not turned again; and each of the
    projections in one matrix has its blocks."""
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
    assert packed == {"gpt2": 6, "phi3": 7, "bert": 7}[model_type]
    txexport.export(tmp_path / "quantised", tmp_path / "out")
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, report


def test_a_bias_of_numbers_is_not_dropped(tmp_path):
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    quantised(source, tmp_path / "quantised", gptq(bias=True), GPTQ, LLAMA)
    edit(tmp_path / "quantised", lambda tensors: tensors["model.layers.0.mlp.up_proj.bias"].fill_(1))
    with pytest.raises(txexport.TxexportError, match=r"unused: model\.layers.0\.mlp\.up_proj\.bias"):
        txexport.export(tmp_path / "quantised", tmp_path / "out")
