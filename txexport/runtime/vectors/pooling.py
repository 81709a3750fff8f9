"""Pooling of hidden states by sentence-transformers' files; B texts, S tokens, W width, V dense width."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle import DENSE, module_folder, read_json
from txexport.errors import BundleError, InputError, shown
from txexport.runtime.arrays import read_npz
from txexport.runtime.preprocessing.text_length import sentence_settings

METHODS = ("mean", "cls", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens")
IDENTITY = "torch.nn.modules.linear.Identity"
# Keys of a dense layer's config: those that its arrays determine, and supported values of the others.
SHAPE = {"in_features", "out_features", "bias"}
KNOWN: dict[str, tuple] = {
    "activation_function": (IDENTITY, "torch.nn.modules.activation.Tanh"),
    "use_residual": (False, None),
    "module_input_name": ("sentence_embedding", None),
    "module_output_name": ("sentence_embedding", None),
}
# The same for a dense layer over tokens, which reads them under either name.
TOKENS = KNOWN | {
    name: (*KNOWN[name], "token_embeddings") for name in ("module_input_name", "module_output_name")
}


@dataclass(frozen=True)
class Dense:
    """A dense layer: weight (V,W), bias (V) or None, tanh or no activation."""

    weight: np.ndarray
    bias: np.ndarray | None
    tanh: bool

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """vectors (...,W) -> (...,V)."""
        if vectors.shape[-1] != self.weight.shape[1]:
            wanted, width = self.weight.shape[1], vectors.shape[-1]
            raise BundleError(f"a dense layer takes vectors of {wanted} numbers, and gets {width}")
        result = vectors @ self.weight.T
        if self.bias is not None:
            result = result + self.bias
        return np.tanh(result) if self.tanh else result


@dataclass(frozen=True)
class Pooling:
    """Sentence vectors by a pooling `method`, then dense layers, L2-normalised if `normalize`.

    `lower` lowercases texts first. `prompts` are prefixes of texts by name; `default_prompt` is the name of
    the one that applies unless another is chosen. Unless `pooled`, the tokens of a prompt are left out of the
    vector.
    """

    method: str
    normalize: bool
    lower: bool = False
    dense: tuple[Dense, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    pooled: bool = True

    def apply(self, hidden: np.ndarray, mask: np.ndarray, prompt: int = 0) -> np.ndarray:
        """hidden (B,S,W), mask (B,S) of 0 and 1 -> vectors (B,W), or as wide as the last dense layer.

        `prompt` is the number of first tokens of each row that are left out.
        """
        vectors = _pooled(self.method, hidden, mask * (mask.cumsum(axis=1) > prompt) if prompt else mask)
        for layer in self.dense:
            vectors = layer.apply(vectors)
        return unit(vectors) if self.normalize else vectors


def unit(vectors: np.ndarray) -> np.ndarray:
    """vectors (B,W) -> L2-normalised (B,W)."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _pooled(method: str, hidden: np.ndarray, mask: np.ndarray) -> np.ndarray:
    if method == "cls":
        return hidden[np.arange(len(hidden)), mask.argmax(axis=1)]
    if method == "lasttoken":
        return hidden[np.arange(len(hidden)), mask.shape[1] - 1 - mask[:, ::-1].argmax(axis=1)]
    weights = mask[:, :, None].astype(hidden.dtype)  # (B, S, 1)
    if method == "max":
        return np.where(weights > 0, hidden, -np.inf).max(axis=1)
    if method == "weightedmean":  # later tokens weigh more (Muennighoff 2022)
        weights = weights * np.arange(1, mask.shape[1] + 1, dtype=hidden.dtype)[:, None]
    total = weights.sum(axis=1)
    return (hidden * weights).sum(axis=1) / (np.sqrt(total) if method == "mean_sqrt_len_tokens" else total)


def read_pooling(folder: Path) -> Pooling | None:
    """Read modules.json and its folders; None without such a file, and for late interaction.

    Raises BundleError for a module that is unknown or out of order, and for a pooling that is not in METHODS.
    """
    modules = read_json(folder / "modules.json", missing=[])
    if not modules or is_late(modules):
        return None
    method, normalize, dense, pooled = None, False, [], True
    for module in modules:
        path = folder / module_folder(module) if isinstance(module, dict) else folder
        kind = str(module.get("type")).rsplit(".", 1)[-1] if isinstance(module, dict) else "?"
        if kind == "Pooling":
            config = read_json(path / "config.json")
            method, pooled = _method(config), _flag(config, "include_prompt")
        elif kind == "Dense" and method is not None and not normalize:
            dense.append(dense_layer(path))
        elif kind == "Normalize":
            normalize = True
        elif kind != "Transformer":
            known = "Transformer, Pooling, Dense, Normalize in this order"
            raise BundleError(f"modules.json: module {kind} is not supported; expected {known}")
    if method is None:
        kinds = ", ".join(str(module.get("type")).rpartition(".")[2] for module in modules)[:200]
        raise BundleError(f"modules.json names {kinds or 'nothing'}, expected a Pooling module among them")
    prompts, default = read_prompts(read_json(folder / "config_sentence_transformers.json", missing={}))
    return Pooling(method, normalize, lower_case(folder), tuple(dense), prompts, default, pooled)


def is_late(modules: Sequence[Any]) -> bool:
    """Return whether modules.json has dense layers without pooling: a vector for each token."""
    kinds = {str(module.get("type")).rpartition(".")[2] for module in modules if isinstance(module, dict)}
    return "Dense" in kinds and not {"Pooling", "Normalize"} & kinds and len(modules) > 1


def lower_case(folder: Path) -> bool:
    """The `do_lower_case` of sentence_bert_config.json. Raises BundleError for damaged values."""
    return bool(sentence_settings(folder).get("do_lower_case"))


def read_prompts(config: Mapping[str, Any]) -> tuple[dict[str, str], str | None]:
    """The prompts of config_sentence_transformers.json by name, and the name of the default one."""
    prompts, default = config.get("prompts") or {}, config.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise BundleError(
            f"config_sentence_transformers.json: prompts is {shown(prompts)}, expected texts by name"
        )
    if default is not None and not (isinstance(default, str) and default in prompts):
        raise BundleError(
            f"config_sentence_transformers.json: default_prompt_name is {shown(default)}, expected one of "
            f"prompts: {', '.join(prompts) or 'there are none'}"
        )
    return {name: text or "" for name, text in prompts.items()}, default


def _flag(config: Mapping[str, Any], name: str) -> bool:
    """A true or false value of a config, true by default. Raises BundleError for another value."""
    value = config.get(name, True)
    if not isinstance(value, bool):
        raise BundleError(f"a Pooling module's {name} is {shown(value)}, expected true or false")
    return value


def dense_layer(folder: Path, known: Mapping[str, tuple] = KNOWN) -> Dense:
    """The layer in a Dense module's folder. Raises BundleError for settings that are not `known`."""
    config, path = read_json(folder / "config.json"), folder / DENSE
    odd = {
        key: value for key, value in config.items() if key not in SHAPE and value not in known.get(key, ())
    }
    if odd:
        message = ", ".join(f"{key}={shown(value)}" for key, value in odd.items())
        raise BundleError(f"{folder}: {message} is not supported")
    arrays = read_npz(path, BundleError)
    weight, bias = arrays.get("weight"), arrays.get("bias")
    fits = weight is not None and weight.ndim == 2 and (bias is None or bias.shape == weight.shape[:1])
    if weight is None or not fits or not all(np.isfinite(array).all() for array in arrays.values()):
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise BundleError(f"{path} has {shapes}, expected finite weight (V, W), and bias (V,) or none")
    return Dense(weight, bias, config.get("activation_function") != IDENTITY)


def _method(config: dict) -> str:
    """The one method of a Pooling module's config, in its old form (flags) or its new one (a name)."""
    flags = {
        "pooling_mode_cls_token": "cls",
        "pooling_mode_lasttoken": "lasttoken",
        "pooling_mode_max_tokens": "max",
        "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_weightedmean_tokens": "weightedmean",
    }
    methods = [k for k, v in config.items() if k.startswith("pooling_mode_") and v is True]
    if not methods and isinstance(config.get("pooling_mode"), str):
        methods = [config["pooling_mode"]]
        flags = {method: method for method in METHODS}
    if len(methods) == 1 and methods[0] in flags:
        return flags[methods[0]]
    raise BundleError(
        f"pooling by {', '.join(methods) or 'nothing'} is not supported; expected one of {', '.join(METHODS)}"
    )


def check_method(method: str) -> str:
    """`method` if it is known. Raises InputError."""
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"pooling {shown(method)} is not known; expected {', '.join(METHODS)}")
    return method
