"""Reading config.json: typed values, and an error that names a value which changes the mathematics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from txexport.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError
from txexport.spec import Activation

T = TypeVar("T")

ACTIVATIONS = {
    "gelu": Activation.GELU,
    "gelu_python": Activation.GELU,
    "gelu_new": Activation.GELU_TANH,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "gelu_fast": Activation.GELU_TANH,
    "relu": Activation.RELU,
    "quick_gelu": Activation.QUICK_GELU,
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "tanh": Activation.TANH,
}


class Stored(Set[str]):
    """The names of a checkpoint's tensors without variation, and the numbers of those that make a spec."""

    def __init__(self, checkpoint: Checkpoint, names: Mapping[str, str]):
        self.checkpoint, self.names = checkpoint, names

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def read(self, name: str) -> np.ndarray:
        """The tensor called `name`, as float32."""
        return self.checkpoint.read(self.names[name])


class Config:
    """The values of one config.json; a getter without default raises CheckpointError for a missing key."""

    def __init__(self, values: Mapping[str, Any], path: Path):
        self.values, self.path = values, path

    def _get(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise CheckpointError(f"{self.path}: '{key}' is missing")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wanted = kind.__name__ if isinstance(kind, type) else "number"
            raise CheckpointError(f"{self.path}: '{key}' is {value!r}, expected {wanted}")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number."""
        return self._get(key, int, default)

    def each(self, key: str, layers: int, default: int) -> list[int]:
        """A whole number for each of `layers`; where config.json has but one, it is that of all."""
        found = self._get(key, (int, list), default)
        numbers = found if isinstance(found, list) else [found] * layers
        if len(numbers) != layers or not all(type(number) is int for number in numbers):
            raise CheckpointError(
                f"{self.path}: '{key}' is {found!r}, expected int, or one a layer of {layers}"
            )
        return numbers

    def number(self, key: str, default: float | None = None) -> float:
        """Any number."""
        return float(self._get(key, (int, float), default))

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        return self._get(key, bool, default)

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        return self._get(key, str, default)

    def strings(self, key: str) -> list[str]:
        """A list of strings; empty where the key is missing."""
        found = self._get(key, list, [])
        if not all(isinstance(item, str) for item in found):
            raise CheckpointError(f"{self.path}: '{key}' is {found!r}, expected strings")
        return found

    def numbers(self, key: str) -> list[float]:
        """A list of numbers."""
        found = self._get(key, list, None)
        if not all(isinstance(item, int | float) for item in found):
            raise CheckpointError(f"{self.path}: '{key}' is {found!r}, expected numbers")
        return found

    def activation(self, key: str, default: str | None = None) -> Activation:
        """An activation by the name that transformers gives it."""
        name = self.text(key, default)
        if name not in ACTIVATIONS:
            raise UnsupportedError(
                f"{self.path}: {key} '{name}' is not supported; expected one of {', '.join(ACTIVATIONS)}"
            )
        return ACTIVATIONS[name]

    def labels(self) -> int:
        """How many labels a classifier has, as transformers counts them."""
        given = self.values.get("id2label")
        return len(given) if isinstance(given, dict) else self.integer("num_labels", 2)

    def local_layers(self, otherwise: Callable[[int], bool], layers: str = "num_hidden_layers") -> list[bool]:
        """Which layers attend to a window only: as layer_types says, or `otherwise` where it is missing."""
        count, kinds = self.integer(layers), self.strings("layer_types")
        if not kinds:
            return [otherwise(layer) for layer in range(count)]
        unknown = set(kinds) - {"sliding_attention", "full_attention"}
        if unknown or len(kinds) != count:
            raise UnsupportedError(
                f"{self.path}: layer_types {kinds} is not supported; expected sliding_attention or "
                f"full_attention for each of {count} layers"
            )
        return [kind == "sliding_attention" for kind in kinds]

    def table(self, key: str) -> "Config":
        """A nested object, read in the same way."""
        return Config(self._get(key, dict, {}), self.path)

    def assuming(self, **defaults: Any) -> "Config":
        """The same with values for keys that are missing altogether; null stays null."""
        return Config(defaults | dict(self.values), self.path)

    def head_dim(self, width: int, heads: int) -> int:
        """Width of one head where heads share `width` evenly."""
        if heads < 1 or width % heads:
            raise CheckpointError(f"{self.path}: width {width} cannot be split over {heads} heads")
        return width // heads

    def expect(self, **allowed: Any) -> None:
        """Raise UnsupportedError for each key whose value is given and is not the one allowed."""
        for key, value in allowed.items():
            found = self.values.get(key)
            if found is not None and found != value:
                raise UnsupportedError(f"{self.path}: {key}={found!r} is not supported; expected {value!r}")

    def refuse_foreign(self, with_code: bool) -> None:
        """Refuse a checkpoint whose mathematics is in its own code or in packed weights.

        A family published `with_code`, before the library had it, names code that says the same.
        """
        if self.values.get("auto_map") and not with_code:
            raise UnsupportedError(
                f"{self.path}: auto_map asks for code of the checkpoint's own, which is never run"
            )
        if self.values.get("quantization_config"):
            raise UnsupportedError(
                f"{self.path}: quantization_config is not supported; export the float weights"
            )


def shortest(layers: Iterable[T]) -> tuple[T, ...]:
    """The shortest run of `layers` that gives them all when it is repeated."""
    found = tuple(layers)
    for size in range(1, len(found)):
        if all(found[i] == found[i % size] for i in range(len(found))):
            return found[:size]
    return found
