"""Random LoRA adapters in PEFT's format."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from txexport.checkpoints.checkpoint import Checkpoint

PREFIX = "base_model.model."


def write(folder: Path, tensors: dict[str, torch.Tensor], **config: Any) -> Path:
    """Write an adapter's folder: tensors by their names in the base."""
    folder.mkdir(exist_ok=True)
    values = {
        "peft_type": "LORA",
        "r": 3,
        "lora_alpha": 5,
        "bias": "none",
        "init_lora_weights": True,
    } | config
    (folder / "adapter_config.json").write_text(json.dumps(values, indent=2))
    named = {PREFIX + name: tensor.contiguous().clone() for name, tensor in tensors.items()}
    save_file(named, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    return folder


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normal numbers scaled by 1 / sqrt(last size)."""
    generator = torch.Generator().manual_seed(seed * 1009 + sum(shape))
    return torch.randn(*shape, generator=generator) / math.sqrt(shape[-1])


def lora(base: Path, *leaves: str, rank: int = 3, conv1d: bool = False) -> dict[str, torch.Tensor]:
    """A and B for every matrix of a base whose module's name ends in one of `leaves`."""
    tensors = {}
    for seed, (name, stored) in enumerate(Checkpoint(base).tensors.items()):
        module = name.removesuffix(".weight")
        if name.endswith(".weight") and module.endswith(tuple(f".{leaf}" for leaf in leaves)):
            out, inner = stored.shape[::-1] if conv1d else stored.shape
            tensors[f"{module}.lora_A.weight"] = random(rank, inner, seed=seed)
            tensors[f"{module}.lora_B.weight"] = random(out, rank, seed=seed + 500)
    return tensors
