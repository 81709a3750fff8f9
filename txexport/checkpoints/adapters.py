"""A LoRA adapter of PEFT, merged into its base while that is read: W + scale B A (Hu et al. 2021, 4.1).

The numbers are those of peft's merge_and_unload in float32, except that each product B A is summed in float64
in a fixed order, so that it is the same on every processor; then it is rounded, scaled and added.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from txexport.checkpoints.adapter_config import CONFIG, AdapterConfig
from txexport.checkpoints.checkpoint import Checkpoint, read_header
from txexport.checkpoints.pytorch.files import read_index
from txexport.checkpoints.stored import FLOATS, Stored, reading
from txexport.errors import CheckpointError, UnsupportedError, shown
from txexport.support.paths import sha256

READERS: dict[str, Callable[[Path], dict[str, Stored]]] = {
    "adapter_model.safetensors": read_header,
    "adapter_model.bin": read_index,
}
PREFIX = "base_model.model."
MATRICES = ("lora_A.weight", "lora_B.weight")
TABLES = ("lora_embedding_A", "lora_embedding_B")  # (r,vocabulary) and (width,r)
BIAS = "lora_B.bias"
COPIES = (".original_module.", ".modules_to_save.")  # biases that peft repeats under other names
CONV1D = ("gpt2", "openai-gpt")  # their matrices are (in,out), whatever fan_in_fan_out says
WORDS = ("embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embed_in", "tokens_embed")
OUTPUTS = ("lm_head", "embed_out", "proj_out")
HEADS = ("classifier", "score", "classifier.out_proj", "classification_head.out_proj")
CLASSIFYING = ("text-classification", "token-classification")
AT_ONCE = 1 << 16  # numbers summed together: few enough for a processor's cache


@dataclass(frozen=True)
class Update:
    """The update of a tensor: scale * b @ a, of b (out,r) and a (r,in), transposed if `turned`.

    Without `a`, b (out) is added to a bias.
    """

    name: str
    scale: float
    b: Stored
    a: Stored | None = None
    turned: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        if self.a is None:
            return self.b.shape
        shape = self.b.shape[0], self.a.shape[1]
        return shape[::-1] if self.turned else shape

    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Factors (rows,r) and (r,columns), float32; their product, scaled, has the tensor's layout."""
        b = self.b.array(self.name)
        if self.a is None:
            return b[:, None], np.ones((1, 1), np.float32)
        a = self.a.array(self.name)
        return (a.T, b.T) if self.turned else (b, a)


class Merged(Checkpoint):
    """A base with the adapter in the folder `adapter` merged into it.

    It includes tensors of the adapter that the base lacks, such as a classifier's. `in_adapter` are all of
    its tensors, without peft's prefix, `updates` are by the name of the changed tensor. Raises
    CheckpointError for an adapter that is damaged or does not fit, UnsupportedError for one that cannot be
    merged exactly.
    """

    def __init__(self, base: Checkpoint, adapter: str | Path):
        vars(self).update(vars(base))
        self.adapter = self._folder = Path(adapter)
        self.in_safetensors = self.as_published = False  # it may have other labels
        if base.gguf is not None or base.quantised:
            raise UnsupportedError(
                f"{base.folder} is quantised or a GGUF file, which cannot be merged with an adapter; "
                "give the float checkpoint that it was made from"
            )
        self._read = AdapterConfig.read(self._folder)
        self._weights, self.in_adapter = self._tensors()
        modules, saved = self._parts(self.in_adapter)
        self._cut, self._added = self._naming([f"{module}.weight" for module in modules])
        self.updates: dict[str, Update] = {}
        for module, parts in modules.items():
            self._update(module, parts)
        self.tensors = dict(base.tensors)
        for name, tensor in saved.items():
            self._replace(name, tensor, modules)
        self._check_saved(base, {self._named(name) for name in saved})
        self._check_tied([*modules, *(name.rpartition(".")[0] for name in saved)])
        self.task = self._read.task
        self.config = self._labelled()
        self._relabelled = self.config is not base.config

    def rows(self, name: str, number: int | None = None) -> Iterator[np.ndarray]:
        """See Checkpoint."""
        update, first = self.updates.get(name), 0
        if update is None:
            yield from super().rows(name, number)
            return
        left, right = update.factors()
        for block in super().rows(name, number):
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # numbers that are not finite are reported by the caller
                product = _product(left[first : first + len(block)], right).reshape(block.shape)
                product *= np.float32(update.scale)
                product += block
            first += len(block)
            yield product

    def companions(self) -> dict[str, Path | bytes]:
        """See Checkpoint; config.json counts the adapter's labels."""
        files = super().companions()
        if self._relabelled:
            files["config.json"] = (json.dumps(self.config, indent=2) + "\n").encode()
        return files

    def hashes(self) -> dict[str, str]:
        """See Checkpoint; includes the adapter's files."""
        result = super().hashes()
        for file in (self._read.file, self._weights):
            with reading(file):
                result[file.name] = sha256(file)
        return result

    def _tensors(self) -> tuple[Path, dict[str, Stored]]:
        """The adapter's file of weights, and its tensors by name without peft's prefix."""
        file = next((file for name in READERS if (file := self._folder / name).is_file()), None)
        if file is None:
            raise CheckpointError(f"{self._folder} has no {' or '.join(READERS)}")
        result = {}
        for name, tensor in READERS[file.name](file).items():
            if not name.startswith(PREFIX):
                raise CheckpointError(
                    f"{file}: tensor {shown(name)} does not begin with peft's prefix {PREFIX}"
                )
            if tensor.dtype not in FLOATS or 0 in tensor.shape:
                raise CheckpointError(
                    f"{file}: tensor {shown(name)} is {tensor.dtype} {tensor.shape}, expected numbers"
                )
            result[name.removeprefix(PREFIX)] = tensor
        return file, result

    def _parts(self, stored: dict[str, Stored]) -> tuple[dict[str, dict[str, Stored]], dict[str, Stored]]:
        """LoRA's tensors by module, and the tensors saved completely, by their name in the base."""
        modules: dict[str, dict[str, Stored]] = {}
        saved: dict[str, Stored] = {}
        for name, tensor in stored.items():
            leaf = next((leaf for leaf in (*MATRICES, *TABLES, BIAS) if name.endswith(f".{leaf}")), None)
            if leaf is not None:
                modules.setdefault(name.removesuffix(f".{leaf}"), {})[leaf] = tensor
            elif ".lora_" in name:
                raise UnsupportedError(f"{self._weights}: tensor {shown(name)} is not part of plain LoRA")
            elif not any(copy in name for copy in COPIES):
                name = name.replace(".base_layer.", ".")
                if name in saved:
                    raise CheckpointError(f"{self._weights}: tensor {shown(name)} appears twice")
                saved[name] = tensor
        if not modules:
            raise CheckpointError(f"{self._weights} holds no LoRA matrices")
        return modules, saved

    def _naming(self, weights: list[str]) -> tuple[str, str]:
        """The prefix that only the adapter's names have, and the one that only the base's have.

        A base may have been saved with its head or without, and the adapter trained with the other.
        """
        firsts = dict.fromkeys(name.partition(".")[0] for name in self.tensors)
        ways = [("", ""), (f"{weights[0].partition('.')[0]}.", ""), *(("", f"{first}.") for first in firsts)]
        for cut, added in ways:
            if all(added + name.removeprefix(cut) in self.tensors for name in weights):
                return cut, added
        missing = next(name for name in weights if name not in self.tensors)
        raise CheckpointError(
            f"{self._weights} is for another base model: it changes "
            f"'{missing.removesuffix('.weight')}', which {self.folder} lacks"
        )

    def _named(self, name: str) -> str:
        """The base's name of a tensor; the adapter's name for one that the base lacks."""
        other = self._added + name.removeprefix(self._cut)
        return other if other in self.tensors else name

    def _update(self, module: str, parts: dict[str, Stored]) -> None:
        """Register the updates of a module's tensors."""
        self._read.check_targeted(module)
        leaves = TABLES if TABLES[0] in parts or TABLES[1] in parts else MATRICES
        for leaf in leaves:
            if leaf not in parts:
                raise CheckpointError(f"{self._weights}: tensor '{module}.{leaf}' is missing")
            if len(parts[leaf].shape) != 2:
                raise UnsupportedError(
                    f"{self._weights}: tensor '{module}.{leaf}' is {parts[leaf].shape}; only matrices are "
                    "merged"
                )
        a, b = (parts.pop(leaf) for leaf in leaves)
        rank, scale = self._read.rank_and_scale(module)
        if a.shape[0] != rank or b.shape[1] != rank:
            raise CheckpointError(
                f"{self._weights}: '{module}' is of rank {a.shape[0]} and {b.shape[1]}, but "
                f"{CONFIG} says {rank}"
            )
        turned = leaves == TABLES or self._is_conv1d(module)
        self._add(f"{module}.weight", Update(module, scale, b, a, turned))
        bias = parts.pop(BIAS, None)
        if (bias is not None) != (self._read.lora_bias and leaves == MATRICES) or parts:
            raise CheckpointError(
                f"{self._weights}: the tensors of '{module}' are not those that {CONFIG} describes"
            )
        if bias is not None:
            self._add(f"{module}.bias", Update(module, scale, bias))

    def _add(self, name: str, update: Update) -> None:
        name = self._named(name)
        if name not in self.tensors:
            raise CheckpointError(f"{self._weights} changes '{name}', which {self.folder} lacks")
        if self.tensors[name].shape != update.shape:
            self._check_vocabulary(name, update.shape, self.tensors[name].shape)
            raise CheckpointError(
                f"{self._weights} is for another base model: it changes '{name}' by {update.shape}, which is "
                f"{self.tensors[name].shape}"
            )
        self.updates[name] = update

    def _check_vocabulary(self, name: str, own: tuple[int, ...], base: tuple[int, ...]) -> None:
        """Raise UnsupportedError for embeddings of an adapter trained with another vocabulary size."""
        module = name.rpartition(".")[0].rpartition(".")[2]
        if module in (*WORDS, *OUTPUTS) and own[1:] == base[1:]:
            raise UnsupportedError(
                f"{self._weights}: '{name}' has {own[0]:,} tokens, and that of {self.folder} {base[0]:,}, so "
                "the vocabulary was resized before training; resize the base "
                f"(resize_token_embeddings({own[0]})), merge the adapter with peft's merge_and_unload, save "
                "both model and tokenizer, and export that"
            )

    def _is_conv1d(self, module: str) -> bool:
        """Tell whether a module's matrix is (in,out), from its class, as peft does."""
        if "model_type" in self.config:
            inner = any(part.isdigit() for part in module.split("."))  # a layer's, not a head's
            return self.config["model_type"] in CONV1D and inner
        return self._read.fan_in_fan_out

    def _replace(self, name: str, tensor: Stored, modules: dict[str, dict[str, Stored]]) -> None:
        """Register a tensor that the adapter replaces, or adds to the base's tensors."""
        module, _, leaf = name.rpartition(".")
        own, is_saved = self._named(name), self._read.saves(module)
        is_words = module.rpartition(".")[2] in (*WORDS, *OUTPUTS)  # peft may save them unchanged
        if not (is_saved or is_words or (leaf == "bias" and self._read.trains_bias(module in modules))):
            raise CheckpointError(
                f"{self._weights}: tensor '{name}' does not belong to a module that {CONFIG} names"
            )
        base = self.tensors.get(own)
        if base is None and not is_saved:
            raise CheckpointError(f"{self._weights} changes '{name}', which {self.folder} lacks")
        is_head = any(module == head or module.endswith(f".{head}") for head in HEADS)
        if base is not None and base.shape != tensor.shape and not is_head:
            self._check_vocabulary(name, tensor.shape, base.shape)
            raise CheckpointError(
                f"{self._weights} is for another base model: its '{name}' is "
                f"{tensor.shape}, and not {base.shape}"
            )
        self.tensors[own] = tensor

    def _check_saved(self, base: Checkpoint, saved: set[str]) -> None:
        """Raise CheckpointError if a trained module would keep the base's numbers."""
        for name in base.tensors:
            if self._read.saves_by_name(name.rpartition(".")[0]) and name not in saved:
                raise CheckpointError(f"{self._weights} lacks '{name}', which modules_to_save names")

    def _check_tied(self, changed: list[str]) -> None:
        """Raise UnsupportedError if the adapter changes only one of several matrices that the base ties."""
        names = {module.rpartition(".")[2]: module for module in changed}
        words = next((names[name] for name in ("shared", *WORDS, *OUTPUTS) if name in names), None)
        tied = self.config.get("tie_word_embeddings", True) is not False and self.task is None
        if words is not None and (tied or "shared" in names):
            raise UnsupportedError(
                f"{self.adapter} changes '{words}', which the base model ties to an unchanged matrix; merge "
                'it with peft, with "tie_word_embeddings": false'
            )

    def _labelled(self) -> dict[str, Any]:
        """The values of config.json, with the number of labels of the adapter's head."""
        weights = [self.tensors[f"{head}.weight"] for head in HEADS if f"{head}.weight" in self.tensors]
        if self.task not in CLASSIFYING or not weights or not weights[-1].shape:
            return self.config
        named = self.config.get("id2label")
        known = self.config.get("num_labels", len(named) if isinstance(named, dict) else 2)
        count = weights[-1].shape[0]
        if count == known:
            return self.config
        others = {name: value for name, value in self.config.items() if name not in ("id2label", "label2id")}
        return others | {"num_labels": count}


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left (n,r) @ right (r,m), float32, each number rounded once from float64."""
    result = np.empty((left.shape[0], right.shape[1]), np.float32)
    right = right.astype(np.float64)
    step = max(1, AT_ONCE // max(1, right.shape[1]))
    for first in range(0, len(left), step):
        some = left[first : first + step].astype(np.float64)
        total = some[:, :1] * right[:1]
        for rank in range(1, right.shape[0]):
            total += some[:, rank, None] * right[rank]
        result[first : first + step] = total
    return result
