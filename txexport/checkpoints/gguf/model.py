"""A GGUF file as a checkpoint: config.json, tensors by transformers' names, and the companion files."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from txexport.checkpoints.gguf import config, container, tensors, tokenizer
from txexport.checkpoints.gguf.metadata import Metadata
from txexport.checkpoints.gguf.rope import FACTORS
from txexport.checkpoints.gguf.tensors import GgufTensor
from txexport.errors import CheckpointError, UnsupportedError, is_failure

SUFFIX = ".gguf"
PARTS = "split.count"
OTHER_WEIGHTS = ("*.safetensors*", "pytorch_model*.bin*")  # which are read in its place
BESIDE = (".bin", ".safetensors", ".json", ".pt", ".pth")


def opened(source: Path) -> "GgufModel | None":
    """The model of a GGUF file, or of the only one in a folder without other weights; else None.

    Raises CheckpointError for a damaged file, another file of a checkpoint, and a folder with several.
    """
    if source.is_file():
        if source.suffix in BESIDE:
            raise CheckpointError(f"{source} is one file of a checkpoint; give its folder")
        return GgufModel(source)
    if not source.is_dir() or any(any(source.glob(other)) for other in OTHER_WEIGHTS):
        return None
    files = sorted(source.glob(f"*{SUFFIX}"))
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:3])
        raise CheckpointError(f"{source} holds {len(files)} GGUF files ({names}); give the path of one")
    return GgufModel(files[0]) if files else None


class GgufModel:
    """An opened GGUF file: `config` is the equivalent of config.json; `tensors` are not read yet.

    Raises CheckpointError for a damaged file, UnsupportedError for unsupported contents.
    """

    def __init__(self, file: Path):
        self.file = file
        held = container.read(file)
        if not held.tensors:
            raise CheckpointError(f"{file} holds no tensors")
        self.metadata = Metadata(held.metadata, file)
        if (parts := self.metadata.value(PARTS, int, 1)) > 1:
            raise UnsupportedError(f"{file} is one of {parts} parts; merge them with gguf-split --merge")
        factors = {name: _read(file, held.tensors[name]) for name in FACTORS if name in held.tensors}
        described = config.File(self.metadata, held.tensors, factors)
        self.config = config.config(described)
        heads = self.metadata.integer("attention.head_count")
        keys = self.config.get("num_key_value_heads", self.config.get("num_kv_heads", heads))
        self.tensors = tensors.tensors(file, held.tensors, self.metadata.architecture, heads, keys)

    def companions(self) -> dict[str, bytes]:
        """The companion files of a checkpoint, derived from the metadata.

        Raises UnsupportedError for an unsupported tokenizer, CheckpointError for a damaged one.
        """
        vocabulary = tokenizer.Vocabulary.of(self.metadata)
        files = {
            "config.json": _json(self.config),
            "generation_config.json": _json(tokenizer.generation(self.metadata, vocabulary)),
        }
        if vocabulary is None:
            return files
        length = self.metadata.integer("context_length")
        files["tokenizer_config.json"] = _json(tokenizer.settings(vocabulary, length))
        try:
            files["tokenizer.json"] = tokenizer.tokenizer(vocabulary).to_str().encode()
        except (CheckpointError, UnsupportedError):
            raise
        except BaseException as error:  # panics of tokenizers are no Exception
            if not is_failure(error):
                raise
            raise CheckpointError(f"{self.file}: no tokenizer can be made of its metadata: {error}") from None
        return files


def _read(file: Path, packed: container.Packed) -> np.ndarray:
    return np.concatenate([block.reshape(-1) for block in GgufTensor(file, packed).rows()])


def _json(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2) + "\n").encode()
