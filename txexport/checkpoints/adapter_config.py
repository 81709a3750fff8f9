"""The settings in PEFT's adapter_config.json that affect a merged LoRA adapter.

Every value that would change the numbers is applied, or refused by name. Regular expressions are not
evaluated: the adapter's tensors show which modules are adapted.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from txexport.checkpoints.checkpoint import read_json
from txexport.errors import CheckpointError, UnsupportedError, shown

CONFIG = "adapter_config.json"
MERGE = "merge it with peft's merge_and_unload, and export the result"
HONOURED = {
    *("peft_type", "task_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "bias"),
    *("lora_bias", "fan_in_fan_out", "target_modules", "exclude_modules", "modules_to_save"),
    *("layers_to_transform", "init_lora_weights"),
}
WITHOUT_PART = {  # in the numbers of a trained adapter
    *("auto_mapping", "base_model_name_or_path", "revision", "peft_version", "inference_mode"),
    *("lora_dropout", "layers_pattern", "megatron_core", "loftq_config", "eva_config", "runtime_config"),
    *("qalora_group_size", "merge_weights"),
}
PLAIN_STARTS = (
    "gaussian",
    "eva",
    "orthogonal",
    "mica",
)  # values of init_lora_weights that leave the base unchanged
HEADS = {  # modules that peft trains for a task, also without modules_to_save
    "SEQ_CLS": ("text-classification", ("classifier", "score")),
    "TOKEN_CLS": ("token-classification", ("classifier", "score")),
    "QUESTION_ANS": ("question-answering", ("qa_outputs",)),
    "FEATURE_EXTRACTION": ("feature-extraction", ()),
}
LITERAL = re.compile(r"\^?(?:[\w-]|\\?\.)+\$?")  # a pattern that matches one name


@dataclass(frozen=True)
class AdapterConfig:
    """The values of `file`, checked."""

    file: Path
    values: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> "AdapterConfig":
        """The config of the adapter in a folder. Raises CheckpointError, UnsupportedError."""
        config = cls(folder / CONFIG, read_json(folder / CONFIG))
        if (kind := config.values.get("peft_type")) != "LORA":
            raise UnsupportedError(
                f"{config.file}: peft_type {shown(kind)} is not supported; expected LORA, whose matrices can "
                "be merged"
            )
        for name, value in config.values.items():
            if name not in HONOURED | WITHOUT_PART and value:
                raise UnsupportedError(f"{config.file}: {name} {shown(value)} is not supported; {MERGE}")
        config._check_start()
        config._check_types()
        return config

    def _check_start(self) -> None:
        start = self.values.get("init_lora_weights", True)
        if not (isinstance(start, bool) or start in PLAIN_STARTS):
            raise UnsupportedError(
                f"{self.file}: init_lora_weights {shown(start)} changes the base model before training; "
                "save it with path_initial_model_for_weight_conversion"
            )

    def _check_types(self) -> None:
        """Raise CheckpointError for a value that peft does not accept."""
        for name in ("use_rslora", "lora_bias", "fan_in_fan_out"):
            if not isinstance(self.values.get(name, False), bool):
                raise self._wrong(name, "true or false")
        for name in ("rank_pattern", "alpha_pattern"):
            if not isinstance(self.values.get(name) or {}, dict):
                raise self._wrong(name, "numbers by name")
        for name in ("modules_to_save", "target_modules", "exclude_modules"):
            value = self.values.get(name) or []
            text = isinstance(value, str) and name != "modules_to_save"
            if not (text or (isinstance(value, list) and all(isinstance(one, str) for one in value))):
                raise self._wrong(name, "a list of names")
        layers = self.values.get("layers_to_transform")
        if not (layers is None or type(layers) is int or isinstance(layers, list)):
            raise self._wrong("layers_to_transform", "a list of numbers")
        if self.values.get("bias", "none") not in ("none", "all", "lora_only"):
            raise self._wrong("bias", "none, all or lora_only")

    def _wrong(self, name: str, expected: str) -> CheckpointError:
        return CheckpointError(f"{self.file}: {name} is {shown(self.values.get(name))}, expected {expected}")

    @property
    def task(self) -> str | None:
        """The task of the adapter's head, by its name on hubs; None for a language model."""
        return self._head[0]

    @property
    def _head(self) -> tuple[str | None, tuple[str, ...]]:
        kind = self.values.get("task_type")
        return HEADS.get(kind, (None, ())) if isinstance(kind, str) else (None, ())

    @property
    def lora_bias(self) -> bool:
        """True if B has a bias."""
        return self.values.get("lora_bias", False)

    @property
    def fan_in_fan_out(self) -> bool:
        """True if adapted matrices are (in,out); peft itself reads that from the module's class."""
        return self.values.get("fan_in_fan_out", False)

    def saves_by_name(self, module: str) -> bool:
        """Tell whether modules_to_save names a module, or one that contains it.

        Names match by their end, as in peft: "norm" matches every input_layernorm too.
        """
        parts = module.split(".")
        owners = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
        names = self.values.get("modules_to_save") or []
        return any(owner.endswith(name) for owner in owners for name in names)

    def saves(self, module: str) -> bool:
        """Tell whether all of a module is trained: by its name, or as the task's head."""
        return self.saves_by_name(module) or any(f".{name}." in f".{module}." for name in self._head[1])

    def trains_bias(self, adapted: bool) -> bool:
        """Tell whether the bias of a module, which is `adapted` or not, is trained."""
        bias = self.values.get("bias", "none")
        return bias == "all" or (bias == "lora_only" and adapted)

    def check_targeted(self, module: str) -> None:
        """Raise CheckpointError for a module that peft would not adapt, although it has tensors."""
        targets, excluded = self.values.get("target_modules"), self.values.get("exclude_modules") or []
        layers = self.values.get("layers_to_transform")
        unnamed = isinstance(targets, list) and not _names(targets, module)
        left_out = isinstance(excluded, list) and _names(excluded, module)
        numbers = {int(part) for part in module.split(".") if re.fullmatch(r"\d{1,6}", part)}
        chosen = [layers] if type(layers) is int else layers or []
        elsewhere = bool(chosen) and not numbers & {one for one in chosen if type(one) is int}
        if unnamed or left_out or elsewhere or self.saves(module):
            raise CheckpointError(f"{self.file} does not adapt '{module}', for which there are tensors")

    def rank_and_scale(self, module: str) -> tuple[int, float]:
        """The rank of a module's matrices, and the factor of their product.

        Raises CheckpointError, and UnsupportedError if a regular expression would select it.
        """
        rank = self._of(module, "rank_pattern", "r")
        alpha = self._of(module, "alpha_pattern", "lora_alpha")
        if type(rank) is not int or not 0 < rank < 1 << 20:
            raise self._wrong("r", "a whole number of at least 1, as in rank_pattern")
        if type(alpha) not in (int, float) or not abs(alpha) < 1e15:
            raise self._wrong("lora_alpha", "a number, as in alpha_pattern")
        return rank, alpha / math.sqrt(rank) if self.values.get("use_rslora", False) else alpha / rank

    def _of(self, module: str, patterns: str, default: str) -> Any:
        """A module's value: that of the first pattern that matches the end of its name, or the default."""
        for pattern, value in (self.values.get(patterns) or {}).items():
            if not LITERAL.fullmatch(pattern):
                raise UnsupportedError(
                    f"{self.file}: {patterns} has the regular expression {shown(pattern)}, and none is run "
                    f"here; {MERGE}"
                )
            name = pattern.removeprefix("^").removesuffix("$").replace("\\", "")
            if module == name or (not pattern.startswith("^") and module.endswith(f".{name}")):
                return value
        return self.values.get(default, 8)  # peft's own


def _names(names: list[str], module: str) -> bool:
    """Tell whether one of the names is a module's name or the end of it."""
    return any(module == name or module.endswith(f".{name}") for name in names)
