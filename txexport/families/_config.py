"""Reading config.json: typed values, and an error that names a value which changes the mathematics."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError
from txexport.spec import Activation

T = TypeVar("T")
LONGEST = 2**31 - 1  # of whole numbers, which graphs and libraries may hold in 32 bits
SHARED_LAYERS = 256
COMPUTED = 2**16  # rows of sinusoids, whose originals have some thousand

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
    "relu2": Activation.RELU_SQUARED,
}


class TensorNames(Set[str]):
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


@dataclass(frozen=True)
class Room:
    """What a checkpoint's tensors leave room for: so many layers or experts, and numbers side by side."""

    count: int
    width: int

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "Room":
        """The room in `checkpoint`. Few layers may share the tensors of one."""
        sizes = (size for stored in checkpoint.tensors.values() for size in stored.shape)
        return cls(max(len(checkpoint.tensors), SHARED_LAYERS), max(sizes, default=1))


EVERYTHING = Room(LONGEST, LONGEST)


class Config:
    """The values of one config.json; a getter without default raises CheckpointError for a missing key.

    What a spec is made of number by number must have `room` in the tensors before it takes time or memory.
    """

    def __init__(self, values: Mapping[str, Any], path: Path, room: Room = EVERYTHING):
        self.values, self.path, self.room = values, path, room

    def _get(self, key: str, kind: type | tuple[type, ...], default: Any) -> Any:
        value = self.values.get(key)
        if value is None:
            value = default
        if value is None:
            raise CheckpointError(f"{self.path}: '{key}' is missing")
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wanted = kind.__name__ if isinstance(kind, type) else "number"
            raise CheckpointError(f"{self.path}: '{key}' is {shortened(value)}, expected {wanted}")
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number of 32 bits."""
        value = self._get(key, int, default)
        if abs(value) > LONGEST:
            raise CheckpointError(f"{self.path}: '{key}' is {shortened(value)}, expected at most {LONGEST}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """How many there are of what has tensors of its own, as layers."""
        value = self.integer(key, default)
        if value > self.room.count:
            raise CheckpointError(
                f"{self.path}: '{key}' is {value}, but there are tensors for at most {self.room.count}"
            )
        return value

    def check_width(self, name: str, value: int) -> None:
        """Raise CheckpointError where no tensor has so many numbers side by side."""
        if value > self.room.width:
            raise CheckpointError(
                f"{self.path}: {name} is {value}, but no tensor is wider than {self.room.width}"
            )

    def positions(self, offset: int) -> int:
        """The rows of a table that may be computed: `offset` more than there are positions."""
        key = "max_position_embeddings"
        if (most := self.integer(key)) > COMPUTED:
            raise UnsupportedError(
                f"{self.path}: '{key}' is {most}, positions are computed for at most {COMPUTED}"
            )
        return most + offset

    def each(self, key: str, layers: int, default: int) -> list[int]:
        """A whole number for each of `layers`; where config.json has but one, it is that of all."""
        value = self._get(key, (int, list), default)
        numbers = value if isinstance(value, list) else [value] * layers
        if len(numbers) != layers or not all(
            type(number) is int and abs(number) <= LONGEST for number in numbers
        ):
            raise CheckpointError(
                f"{self.path}: '{key}' is {shortened(value)}, expected int, or one a layer of {layers}"
            )
        return numbers

    def number(self, key: str, default: float | None = None) -> float:
        """Any number."""
        value = self._get(key, (int, float), default)
        if not abs(value) <= sys.float_info.max:  # NaN included
            raise CheckpointError(f"{self.path}: '{key}' is {shortened(value)}, expected a finite number")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """True or false."""
        return self._get(key, bool, default)

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        return self._get(key, str, default)

    def strings(self, key: str) -> list[str]:
        """A list of strings; empty where the key is missing."""
        values = self._get(key, list, [])
        if not all(isinstance(item, str) for item in values):
            raise CheckpointError(f"{self.path}: '{key}' is {shortened(values)}, expected strings")
        return values

    def numbers(self, key: str) -> list[float]:
        """A list of numbers."""
        values = self._get(key, list, None)
        if not all(
            isinstance(item, int | float) and type(item) is not bool and abs(item) <= sys.float_info.max
            for item in values
        ):
            raise CheckpointError(f"{self.path}: '{key}' is {shortened(values)}, expected finite numbers")
        return values

    def activation(self, key: str, default: str | None = None) -> Activation:
        """An activation by the name that transformers gives it."""
        name = self.text(key, default)
        if name not in ACTIVATIONS:
            raise UnsupportedError(
                f"{self.path}: {key} '{name}' is not supported; expected one of {', '.join(ACTIVATIONS)}"
            )
        return ACTIVATIONS[name]

    def labels(self) -> int:
        """How many labels a classifier has, as transformers counts them: num_labels before names."""
        named = self.values.get("id2label")
        return self.integer("num_labels", len(named) if isinstance(named, dict) else 2)

    def local_layers(self, otherwise: Callable[[int], bool], layers: str = "num_hidden_layers") -> list[bool]:
        """Which layers attend to a window only: as layer_types says, or `otherwise` where it is missing."""
        count, kinds = self.count(layers), self.strings("layer_types")
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
        return Config(self._get(key, dict, {}), self.path, self.room)

    def with_defaults(self, **defaults: Any) -> "Config":
        """The same with values for keys that are missing altogether; null stays null."""
        return Config(defaults | dict(self.values), self.path, self.room)

    def replaced(self, **values: Any) -> "Config":
        """The same with `values` in place of what is there."""
        return Config(dict(self.values) | values, self.path, self.room)

    def renamed(self, aliases: Mapping[str, str]) -> "Config":
        """The same by the family's own names; a value under another name wins, as in transformers."""
        return self.replaced(**{aliases[key]: self.values[key] for key in aliases if key in self.values})

    def head_dim(self, width: int, heads: int) -> int:
        """Width of one head where heads share `width` evenly."""
        self.check_width("width", width)
        if heads < 1 or width % heads:
            raise CheckpointError(f"{self.path}: width {width} cannot be split over {heads} heads")
        return width // heads

    def expect(self, **allowed: Any) -> None:
        """Raise UnsupportedError for each key whose value is given and is not the one allowed."""
        for key, wanted in allowed.items():
            value = self.values.get(key)
            if value is not None and value != wanted:
                raise UnsupportedError(
                    f"{self.path}: {key}={shortened(value)} is not supported; expected {shortened(wanted)}"
                )

    def check_supported(self, with_code: bool) -> None:
        """Refuse a checkpoint whose mathematics is in its own code, or in weights of other files.

        A family published `with_code`, before the library had it, names code that says the same.
        """
        if self.values.get("auto_map") and not with_code:
            raise UnsupportedError(
                f"{self.path}: auto_map asks for code of the checkpoint's own, which is never run"
            )
        if self.values.get("transformers_weights"):
            raise UnsupportedError(
                f"{self.path}: transformers_weights names other weights than those that are read"
            )
        if (self.path.parent / "adapter_config.json").is_file():
            raise UnsupportedError(
                f"{self.path.parent} has an adapter_config.json; merge the adapter into the weights first"
            )


def shortened(value: object) -> str:
    """A value as an error message shows it."""
    if isinstance(value, int) and abs(value) > 10**50:
        return "a number of more than 50 digits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def minimal_cycle(layers: Iterable[T]) -> tuple[T, ...]:
    """The shortest run of `layers` that gives them all when it is repeated."""
    result = tuple(layers)
    for size in range(1, len(result)):
        if all(result[i] == result[i % size] for i in range(len(result))):
            return result[:size]
    return result
