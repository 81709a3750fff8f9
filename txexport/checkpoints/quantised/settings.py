"""Typed values of JSON, such as config.json's `quantization_config`; errors name the value."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from txexport.errors import CheckpointError, UnsupportedError, shown

LARGEST = 3.4e38  # of a float32


@dataclass(frozen=True)
class Settings:
    """A JSON object; messages call it `path`."""

    values: Mapping[str, Any]
    path: str

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Settings":
        """The settings of a config.json that has them."""
        values = config["quantization_config"]
        if not isinstance(values, dict):
            raise CheckpointError(f"config.json: quantization_config is {shown(values)}, expected dict")
        return cls(values, "config.json: quantization_config")

    def method(self) -> str:
        """The format's name; old bitsandbytes checkpoints have none."""
        flags = ("load_in_8bit", "load_in_4bit")
        known = "bitsandbytes" if any(self.values.get(flag) for flag in flags) else ""
        return self.text("quant_method", known)

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer of at most 32 bits."""
        value = self._get(key, int, default)
        if abs(value) > 2**31:
            raise CheckpointError(f"{self.path}.{key} is {shown(value)}, expected at most 2**31")
        return value

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        return self._get(key, bool, default)

    def text(self, key: str, default: str | None = None) -> str:
        """A string, in lower case."""
        return self._get(key, str, default).lower()

    def table(self, key: str) -> "Settings":
        """An object inside; empty if it is missing."""
        return Settings(self._get(key, dict, {}), f"{self.path}.{key}")

    def tables(self, key: str) -> list["Settings"]:
        """All objects inside one."""
        inner = self.table(key)
        return [inner.table(name) for name in inner.values]

    def rectangles(self, key: str) -> list[tuple[int, int]]:
        """A size [outputs, inputs]; none if it is missing."""
        size = self._get(key, list, [])
        if not size:
            return []
        if len(size) != 2 or not all(type(one) is int and 0 < one <= 2**31 for one in size):
            raise CheckpointError(f"{self.path}.{key} is {shown(size)}, expected two sizes")
        return [(size[0], size[1])]

    def number(self, key: str) -> float:
        """A finite float32 number."""
        value = self._get(key, (int, float), None)
        if not abs(value) <= LARGEST:  # NaN included
            raise CheckpointError(f"{self.path}.{key} is {shown(value)}, expected a number of float32")
        return float(value)

    def expect(self, **allowed: tuple) -> None:
        """Raise UnsupportedError for a key whose value is none of those allowed; a missing key is allowed.

        Strings are compared in lower case.
        """
        for key, values in allowed.items():
            value = self.values.get(key)
            plain = value.lower() if isinstance(value, str) else value
            if value is None or any(type(plain) is type(one) and plain == one for one in values):
                continue
            instead = " or ".join(map(repr, values)) or "none"
            raise UnsupportedError(f"{self.path}.{key} {shown(value)} is not supported; expected {instead}")

    def _get(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise CheckpointError(f"{self.path}.{key} is missing")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wanted = kind.__name__ if isinstance(kind, type) else "number"
            raise CheckpointError(f"{self.path}.{key} is {shown(value)}, expected {wanted}")
        return value
