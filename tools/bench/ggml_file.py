"""A Whisper checkpoint as a file of whisper.cpp: its header, mel filters, vocabulary and tensors.

The layout is that of whisper.cpp's models/convert-h5-to-ggml.py. Convolutions and matrices are in float16,
which its convolutions need; matrices may be in Q8_0, blocks of 32 integers with a scale in float16.
"""

import json
import re
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from safetensors.numpy import load_file

MAGIC, BLOCK = 0x67676D6C, 32
F32, F16, Q8_0 = 0, 1, 8  # types of tensors
FILE_F16, FILE_Q8_0 = 1, 7  # types of files
QUANTIZATION_VERSION = 2 * 1000
WORDS = {
    "self_attn.k_proj": "attn.key",
    "self_attn.q_proj": "attn.query",
    "self_attn.v_proj": "attn.value",
    "self_attn.out_proj": "attn.out",
    "self_attn_layer_norm": "attn_ln",
    "encoder_attn.k_proj": "cross_attn.key",
    "encoder_attn.q_proj": "cross_attn.query",
    "encoder_attn.v_proj": "cross_attn.value",
    "encoder_attn.out_proj": "cross_attn.out",
    "encoder_attn_layer_norm": "cross_attn_ln",
    "fc1": "mlp.0",
    "fc2": "mlp.2",
    "final_layer_norm": "mlp_ln",
}
OTHERS = {
    "encoder.layer_norm": "encoder.ln_post",
    "decoder.layer_norm": "decoder.ln",
    "encoder.embed_positions.weight": "encoder.positional_embedding",
    "decoder.embed_positions.weight": "decoder.positional_embedding",
    "decoder.embed_tokens": "decoder.token_embedding",
}


def write_ggml(checkpoint: Path, path: Path, dtype: str) -> None:
    """Write `checkpoint` to `path` with matrices in `dtype`, float16 or int8."""
    config = json.loads((checkpoint / "config.json").read_text())
    tokens = json.loads((checkpoint / "tokenizer.json").read_text())["model"]["vocab"]
    sizes = [
        config["vocab_size"],
        config["max_source_positions"],
        config["d_model"],
        config["encoder_attention_heads"],
        config["encoder_layers"],
        config["max_target_positions"],
        config["d_model"],
        config["decoder_attention_heads"],
        config["decoder_layers"],
        config["num_mel_bins"],
        FILE_F16 if dtype == "float16" else FILE_Q8_0 + QUANTIZATION_VERSION,
    ]
    with open(path, "wb") as file:
        file.write(struct.pack("12i", MAGIC, *sizes))
        file.write(struct.pack("2i", config["num_mel_bins"], 201))
        file.write(np.zeros((config["num_mel_bins"], 201), np.float32).tobytes())  # spectrograms are given
        file.write(struct.pack("i", len(tokens)))
        for word in sorted(tokens, key=tokens.__getitem__):
            file.write(struct.pack("i", len(word.encode())) + word.encode())
        for name, array in load_file(checkpoint / "model.safetensors").items():
            if name != "proj_out.weight":
                _write(file, _name(name.removeprefix("model.")), array, dtype)


def _name(name: str) -> str:
    """The name of OpenAI's checkpoints, which whisper.cpp reads."""
    if layer := re.fullmatch(r"(encoder|decoder)\.layers\.(\d+)\.(.+)\.(weight|bias)", name):
        side, number, part, kind = layer.groups()
        return f"{side}.blocks.{number}.{WORDS[part]}.{kind}"
    for other, openai in OTHERS.items():
        if name.startswith(other):
            return openai + name.removeprefix(other)
    return name


def _write(file: BinaryIO, name: str, array: np.ndarray, dtype: str) -> None:
    if name in ("encoder.conv1.bias", "encoder.conv2.bias"):
        array = array[:, None]
    kind = F32
    if name.endswith(".weight") and array.ndim > 1:
        kind = Q8_0 if dtype == "int8" and array.ndim == 2 else F16
    file.write(struct.pack("3i", array.ndim, len(name), kind))
    file.write(struct.pack(f"{array.ndim}i", *array.shape[::-1]) + name.encode())
    file.write(_blocks(array) if kind == Q8_0 else array.astype(np.float16 if kind else np.float32).tobytes())


def _blocks(array: np.ndarray) -> bytes:
    """A matrix in Q8_0."""
    rows = array.reshape(-1, BLOCK)
    scale = np.abs(rows).max(axis=1, keepdims=True) / 127
    integers = np.rint(rows / np.where(scale > 0, scale, 1)).astype(np.int8)
    return np.concatenate([scale.astype(np.float16).view(np.int8), integers], axis=1).tobytes()
