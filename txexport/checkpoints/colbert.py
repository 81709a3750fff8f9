"""ColBERT as its authors publish it: a projection of every token among the weights, and artifact.metadata.

Its settings are translated into PyLate's files, which a bundle reads.
"""

import json
import string
from collections.abc import Mapping
from typing import Any

from txexport.checkpoints.checkpoint import Checkpoint, read_json
from txexport.errors import CheckpointError, UnsupportedError, shown

ARCHITECTURE, METADATA, LINEAR = "HF_ColBERT", "artifact.metadata", "linear.weight"
FOLDER = "1_Dense"
# Settings that change the comparison of texts, and their supported values.
EXPECTED = {"similarity": "cosine", "interaction": "colbert"}
# A setting's name, PyLate's name of it, its type, and its default.
SETTINGS: Mapping[str, tuple[str, type, Any]] = {
    "query_token_id": ("query_prefix", str, "[unused0]"),
    "doc_token_id": ("document_prefix", str, "[unused1]"),
    "query_maxlen": ("query_length", int, 32),
    "doc_maxlen": ("document_length", int, 220),
    "attend_to_mask_tokens": ("attend_to_expansion_tokens", bool, False),
    "mask_punctuation": ("skiplist_words", bool, True),
}


def is_colbert(checkpoint: Checkpoint) -> bool:
    """Tell whether config.json names the class of the authors' code."""
    architectures = checkpoint.config.get("architectures")
    return isinstance(architectures, list) and ARCHITECTURE in architectures


def settings(checkpoint: Checkpoint) -> dict[str, bytes]:
    """PyLate's files, by name, equivalent to the checkpoint's own, without the projection's weight.

    Raises CheckpointError for a setting of another type and if the projection is missing, UnsupportedError
    for settings that compare texts in another way.
    """
    file = checkpoint.folder / METADATA
    if not file.is_file():
        raise CheckpointError(f"{checkpoint.folder} has no {METADATA}, which {ARCHITECTURE} needs")
    if LINEAR not in checkpoint.tensors:
        raise CheckpointError(f"{checkpoint.folder} has no tensor '{LINEAR}', which {ARCHITECTURE} needs")
    given = read_json(file)
    for name, wanted in EXPECTED.items():
        if (value := given.get(name, wanted)) != wanted:
            raise UnsupportedError(f"{file}: {name} is {shown(value)}; expected '{wanted}'")
    values: dict[str, Any] = {"model_type": "ColBERT", "do_query_expansion": True}
    for name, (to_pylate, kind, default) in SETTINGS.items():
        value = default if given.get(name) is None else given[name]
        if type(value) is not kind:
            raise CheckpointError(f"{file}: {name} is {shown(value)}, expected {kind.__name__}")
        values[to_pylate] = value
    values["skiplist_words"] = list(string.punctuation) if values["skiplist_words"] else []
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": FOLDER, "type": "pylate.models.Dense.Dense"},
    ]
    outputs, inputs = checkpoint.tensors[LINEAR].shape
    layer = {
        "in_features": inputs,
        "out_features": outputs,
        "bias": False,
        "activation_function": "torch.nn.modules.linear.Identity",
    }
    contents = {
        "modules.json": modules,
        "config_sentence_transformers.json": values,
        f"{FOLDER}/config.json": layer,
    }
    return {name: (json.dumps(content, indent=2) + "\n").encode() for name, content in contents.items()}
