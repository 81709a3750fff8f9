"""Checkpoints in the format before safetensors: pytorch_model.bin, as torch.save writes it."""

import json
from collections import OrderedDict
from pathlib import Path

import torch
from safetensors.torch import load_file

SINGLE = "pytorch_model.bin"


def pickled(folder: Path, *, legacy: bool = False, shards: int = 1, trained: bool = False) -> Path:
    """Replace a folder's safetensors by files of torch.save; `legacy` is the format before PyTorch 1.6.

    `trained` nests them as Lightning does, below an attribute of its module and beside training state.
    """
    file = folder / "model.safetensors"
    tensors = load_file(file)
    file.unlink()
    files = [SINGLE]
    if shards > 1:
        files = [f"pytorch_model-{number:05}-of-{shards:05}.bin" for number in range(1, shards + 1)]
        files_of = {name: files[place % shards] for place, name in enumerate(tensors)}
        (folder / f"{SINGLE}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files_of}))
    for place, name in enumerate(files):
        state = OrderedDict(list(tensors.items())[place::shards])
        state._metadata = OrderedDict({"": {"version": 1}})  # as Module.state_dict has it
        if trained:
            state = {f"model.module.{name}": tensor for name, tensor in state.items()}
            state = {"pytorch-lightning_version": "2.5.0", "epoch": 3, "state_dict": state}
        torch.save(state, folder / name, _use_new_zipfile_serialization=not legacy)
    return folder
