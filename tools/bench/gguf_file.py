"""Conversion of a checkpoint to GGUF for llama.cpp."""

import json
from pathlib import Path

import gguf
import numpy as np
from safetensors.numpy import load_file


def write_gguf(checkpoint: Path, path: Path) -> None:
    """Write a Qwen2 or GPT-2 as GGUF, in float32, without its vocabulary."""
    config = json.loads((checkpoint / "config.json").read_text())
    kind = config["model_type"]
    architecture = {"qwen2": gguf.MODEL_ARCH.QWEN2, "gpt2": gguf.MODEL_ARCH.GPT2}[kind]
    layers = config["n_layer" if kind == "gpt2" else "num_hidden_layers"]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    writer.add_block_count(layers)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    if kind == "gpt2":
        writer.add_context_length(config["n_positions"])
        writer.add_embedding_length(config["n_embd"])
        writer.add_feed_forward_length(4 * config["n_embd"])
        writer.add_head_count(config["n_head"])
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    else:
        writer.add_context_length(config["max_position_embeddings"])
        writer.add_embedding_length(config["hidden_size"])
        writer.add_feed_forward_length(config["intermediate_size"])
        writer.add_head_count(config["num_attention_heads"])
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    names = gguf.get_tensor_name_map(architecture, layers)
    for name, array in load_file(checkpoint / "model.safetensors").items():
        if name.endswith(("c_attn.weight", "c_fc.weight", "c_proj.weight")):  # (in,out) in the original
            array = np.ascontiguousarray(array.T)
        known = names.get_name(name, (".weight", ".bias"))
        if known is None:
            raise ValueError(f"llama.cpp has no name for {name}")
        writer.add_tensor(known, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
