"""A GGUF file's metadata: typed values, each asked for by name; what nobody asked for is told."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txexport.errors import CheckpointError, UnsupportedError, shown

ARCHITECTURE = "general.architecture"

# What changes nothing that is computed: sizes that tensors have anyway, and notes.
SILENT = {"vocab_size", "feed_forward_length", "tensor_data_layout", "rope.scaling.finetuned"}


class Metadata:
    """The values of a GGUF file under `architecture`, as llama.cpp calls it, and the others in `values`."""

    def __init__(self, values: Mapping[str, Any], file: Path):
        self.values, self.file = values, file
        self.asked: set[str] = set()
        self.architecture: str = self.value(ARCHITECTURE, str, None)

    def value(self, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
        """The value `name`; CheckpointError where it is missing without a default, or of another kind."""
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
        """A whole number of the architecture's."""
        return self.value(self._key(key), int, default)

    def number(self, key: str, default: float | None = None) -> float:
        """Any finite number of the architecture's."""
        value = self.value(self._key(key), (int, float), default)
        if not math.isfinite(value):
            raise CheckpointError(f"{self.file}: '{self._key(key)}' is {value}, expected a finite number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false, of the architecture's."""
        return self.value(self._key(key), bool, default)

    def text(self, key: str, default: str) -> str:
        """A string of the architecture's."""
        return self.value(self._key(key), str, default)

    def token(self, name: str) -> int | None:
        """A special token's id, by what comes before `_token_id`; None where there is none."""
        key = f"tokenizer.ggml.{name}_token_id"
        return self.value(key, int, None) if key in self.values else None

    def check_asked(self) -> None:
        """Raise UnsupportedError for a value of the architecture's that has not been asked for.

        It may change what is computed.
        """
        prefix = f"{self.architecture}."
        left = {key.removeprefix(prefix) for key in self.values if key.startswith(prefix)}
        for key in sorted(left - self.asked - SILENT):
            value = shown(self.values[prefix + key])
            raise UnsupportedError(f"{self.file}: '{prefix}{key}' is {value}, which is not supported")
