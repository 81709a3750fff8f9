"""Sentence vectors from hidden states, as a checkpoint's sentence-transformers files say."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txexport.bundle import read_json
from txexport.errors import BundleError, InputError

METHODS = ("mean", "cls")


@dataclass(frozen=True)
class Pooling:
    """How to make one vector of a sentence.

    `max_length` is the longest input in tokens, where one is set; `lower` asks for lower case first.
    """

    method: str
    normalize: bool
    max_length: int | None = None
    lower: bool = False

    def apply(self, hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """hidden (B,S,W), mask (B,S) of 0 and 1 -> vectors (B,W)."""
        if self.method == "cls":
            vectors = hidden[:, 0]
        else:
            weights = mask[:, :, None].astype(hidden.dtype)
            vectors = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        if self.normalize:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors


def read_pooling(folder: Path) -> Pooling | None:
    """What modules.json and its folders say; None where there is no modules.json.

    Raises BundleError for a module or a pooling that is neither mean, CLS nor normalisation.
    """
    modules = read_json(folder / "modules.json", missing=[])
    if not modules:
        return None
    method, normalize = None, False
    for module in modules:
        kind = str(module.get("type")).rsplit(".", 1)[-1] if isinstance(module, dict) else "?"
        if kind == "Pooling":
            method = _method(read_json(folder / str(module.get("path")) / "config.json"))
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            known = "Transformer, Pooling, Normalize"
            raise BundleError(f"modules.json: module {kind} is not supported; expected {known}")
    if method is None:
        raise BundleError("modules.json names no Pooling module, so it says nothing of sentence vectors")
    if read_json(folder / "config_sentence_transformers.json", missing={}).get("default_prompt_name"):
        raise BundleError(
            "config_sentence_transformers.json sets default_prompt_name, which is not supported"
        )
    settings = read_json(folder / "sentence_bert_config.json", missing={})
    return Pooling(method, normalize, settings.get("max_seq_length"), settings.get("do_lower_case", False))


def _method(config: dict) -> str:
    """The one method of a Pooling module's config, in its old form of flags or its new form of a name."""
    flags = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}
    asked = [k for k, v in config.items() if k.startswith("pooling_mode_") and v is True]
    if not asked and isinstance(config.get("pooling_mode"), str):
        return check_method(config["pooling_mode"])
    if len(asked) == 1 and asked[0] in flags:
        return flags[asked[0]]
    raise BundleError(f"pooling by {', '.join(asked) or 'nothing'} is not supported; expected mean or CLS")


def check_method(method: str) -> str:
    """`method` if it is known. Raises InputError."""
    if method not in METHODS:
        raise InputError(f"pooling '{method}' is not known; expected {' or '.join(METHODS)}")
    return method
