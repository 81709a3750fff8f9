"""The settings of each format, as its quantization_config has them."""

from tiny_quantised._packers import (
    Packer,
    awq,
    float8,
    four_bits,
    gptq,
    int_quantized,
    llm_int8,
    pack_quantized,
    torchao,
)


def compressed(form: str, **weights) -> dict:
    """compressed-tensors' settings, with activations rounded to int8 where `kind` says so."""
    tokens = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}
    activations = tokens if form == "int-quantized" else None
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    settings = {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}
    return settings | {"quantization_status": "compressed", "ignore": ["lm_head"]}


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": False}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 16]}
MXFP4 = {
    "quant_method": "mxfp4",
    "modules_to_not_convert": [
        "model.layers.*.self_attn",
        "model.layers.*.mlp.router",
        "model.embed_tokens",
        "lm_head",
    ],
}
TORCHAO = {"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}}

# Each format's packer, and its quantization_config.
FORMATS: dict[str, tuple[Packer, dict]] = {
    "gptq": (gptq(act_order=True, bias=True), GPTQ | {"desc_act": True}),
    "gptq-asymmetric": (gptq(bits=3, symmetric=False), GPTQ | {"bits": 3, "sym": False}),
    "awq": (awq(), AWQ),
    "pack-quantized": (
        pack_quantized(symmetric=False),
        compressed("pack-quantized", num_bits=4, symmetric=False, group_size=32, strategy="group"),
    ),
    "int-quantized": (int_quantized, compressed("int-quantized", num_bits=8, strategy="channel")),
    "llm.int8": (llm_int8, {"quant_method": "bitsandbytes", "load_in_8bit": True}),
    "nf4": (four_bits(nested=True), {"quant_method": "bitsandbytes", "load_in_4bit": True}),
    "fp8": (float8(32, 16), FP8),
    "torchao": (torchao, TORCHAO),
}
