"""Writes quantised checkpoints, and changes them."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import tiny_checkpoint
import torch
from safetensors.torch import load_file, save_file

from tiny_quantised._formats import MXFP4
from tiny_quantised._packers import Packer, mxfp4

SIZES = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}
LLAMA = r"self_attn\.[qkvo]_proj|mlp\.(gate|up|down)_proj"


def quantised_experts(source: Path, folder: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """Write a copy of a gpt-oss checkpoint with MXFP4 experts; return their values (experts,out,in)."""
    shutil.copytree(source, folder)
    settle(folder, **MXFP4)
    random = np.random.default_rng(seed)
    tensors, expected = {}, {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            tensors[name] = tensor
            continue
        parts, expected[name] = mxfp4(random, *tensor.mT.shape)
        tensors |= {f"{name}_{leaf}": part for leaf, part in parts.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return expected


def tiny_gpt_oss(folder: Path, **config) -> Path:
    """A float gpt-oss with experts of sizes that MXFP4 packs; some activations are clipped."""
    tiny_checkpoint.save(folder, "gpt_oss", **SIZES | {"num_hidden_layers": 2} | config)
    return folder


def quantised(
    source: Path, folder: Path, packer: Packer, settings: dict, modules: str = LLAMA, seed: int = 0
) -> dict[str, np.ndarray]:
    """Write a copy of a checkpoint with `modules` (a regular expression) packed; return their values."""
    shutil.copytree(source, folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    random = np.random.default_rng(seed)
    tensors, expected = {}, {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        module, _, leaf = name.rpartition(".")
        if leaf != "weight" or not re.search(rf"({modules})$", module):
            tensors.setdefault(name, tensor)
            continue
        parts, expected[name] = packer(random, *tensor.shape)
        tensors |= {f"{module}.{leaf}": part.contiguous() for leaf, part in parts.items()}
    assert expected
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return expected


def tiny_llama(folder: Path, **config) -> Path:
    """A float llama with matrices of sizes that every format packs."""
    tiny_checkpoint.save(folder, "llama", **SIZES | config)
    return folder


def edit(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change a checkpoint's tensors."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def settle(folder: Path, **settings) -> None:
    """Change a checkpoint's quantization_config."""
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = config.get("quantization_config", {}) | settings
    (folder / "config.json").write_text(json.dumps(config))
