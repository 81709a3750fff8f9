"""A GGUF file's metadata: typed values, read by name; values that were never read are reported."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txexport.errors import CheckpointError, UnsupportedError, shown

ARCHITECTURE = "general.architecture"

# Keys without an effect on the computation: sizes that the tensors have too, and notes.
SILENT = {"vocab_size", "feed_forward_length", "tensor_data_layout", "rope.scaling.finetuned"}


class Metadata:
    """The values of a GGUF file under `architecture`, as llama.cpp calls it, and the others in `values`."""

    def __init__(self, values: Mapping[str, Any], file: Path):
        self.values, self.file = values, file
        self.asked: set[str] = set()
        self.architecture: str = self.value(ARCHITECTURE, str, None)

    def value(self, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
        """The value `name`; CheckpointError if it is missing without a default, or of another type."""
        value = self.values.get(name, default)
        if value is None:
            raise CheckpointError(f"{self.file} has no '{name}' in its metadata")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            if hasattr(value, "__len__") and not isinstance(value, str):
                raise UnsupportedError(f"{self.file}: '{name}' is a list, one value is supported")
            raise CheckpointError(f"{self.file}: '{name}' is {shown(value)}, expected another type")
        return value

    def _key(self, key: str) -> str:
        self.asked.add(key)
        return f"{self.architecture}.{key}"

    def __contains__(self, key: str) -> bool:
        return self._key(key) in self.values

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer of the architecture."""
        return self.value(self._key(key), int, default)

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number of the architecture."""
        value = self.value(self._key(key), (int, float), default)
        if not math.isfinite(value):
            raise CheckpointError(f"{self.file}: '{self._key(key)}' is {value}, expected a finite number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """A boolean of the architecture."""
        return self.value(self._key(key), bool, default)

    def text(self, key: str, default: str) -> str:
        """A string of the architecture."""
        return self.value(self._key(key), str, default)

    def token(self, name: str) -> int | None:
        """A special token's id, by the name before `_token_id`; None if there is none."""
        key = f"tokenizer.ggml.{name}_token_id"
        return self.value(key, int, None) if key in self.values else None

    def check_asked(self) -> None:
        """Raise UnsupportedError for a value of the architecture that was never read.

        It may change the computation.
        """
        prefix = f"{self.architecture}."
        left = {key.removeprefix(prefix) for key in self.values if key.startswith(prefix)}
        for key in sorted(left - self.asked - SILENT):
            value = shown(self.values[prefix + key])
            raise UnsupportedError(f"{self.file}: '{prefix}{key}' is {value}, which is not supported")
