"""Quantised checkpoints, packed number by number from each format's own rules; no reader is used.

`FORMATS` has the packer and the settings of each format; `quantised` writes a copy of a checkpoint by them.
"""

from tiny_quantised._formats import FORMATS, GPTQ
from tiny_quantised._packers import (
    awq,
    e4m3,
    float8,
    four_bits,
    gptq,
    int_quantized,
    llm_int8,
    pack_quantized,
    torchao,
)
from tiny_quantised._writing import (
    LLAMA,
    SIZES,
    edit,
    quantised,
    quantised_experts,
    settle,
    tiny_gpt_oss,
    tiny_llama,
)

__all__ = [
    "FORMATS",
    "GPTQ",
    "LLAMA",
    "SIZES",
    "awq",
    "e4m3",
    "edit",
    "float8",
    "four_bits",
    "gptq",
    "int_quantized",
    "llm_int8",
    "pack_quantized",
    "quantised",
    "quantised_experts",
    "settle",
    "tiny_gpt_oss",
    "tiny_llama",
    "torchao",
]
