"""Read config.json: typed values, and errors that name the offending key."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, SpecError, UnsupportedError
from txexport.spec import Activation

T = TypeVar("T")
LONGEST = 2**31 - 1  # bound of integers, which graphs and libraries may hold in 32 bits
SHARED_LAYERS = 256
COMPUTED = 2**16  # bound of sinusoid rows; originals have some thousand

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
    """The names of a checkpoint's tensors in canonical form, and the values that a spec depends on."""

    def __init__(self, checkpoint: Checkpoint, names: Mapping[str, str]):
        self.checkpoint, self.names = checkpoint, names

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def shapes(self, ending: str) -> list[tuple[int, ...]]:
        """The shapes of the tensors whose names end so."""
        tensors = self.checkpoint.tensors
        return [tuple(tensors[stored].shape) for name, stored in self.names.items() if name.endswith(ending)]

    def read(self, name: str) -> np.ndarray:
        """Read the tensor called `name` as float32."""
        return self.checkpoint.read(self.names[name])


@dataclass(frozen=True)
class Room:
    """Upper bounds that a checkpoint's tensors imply: the number of layers or experts, and a width."""

    count: int
    width: int

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> "Room":
        """The bounds of `checkpoint`. A single layer's tensors may be shared by few layers."""
        sizes = (size for stored in checkpoint.tensors.values() for size in stored.shape)
        return cls(max(len(checkpoint.tensors), SHARED_LAYERS), max(sizes, default=1))


EVERYTHING = Room(LONGEST, LONGEST)


class Config:
    """The values of one config.json; a getter without default raises CheckpointError for a missing key.

    Counts and widths that a spec allocates by are checked against `room` before they cost time or memory.
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

    def refused(self, error: SpecError) -> CheckpointError:
        """The error of a spec of these values; where config.json has the name, without the spec's."""
        _, _, message = str(error).partition("Spec: ")
        return CheckpointError(f"{self.path}: {message if message.split(' ')[0] in self.values else error}")

    def integer(self, key: str, default: int | None = None) -> int:
        """A 32-bit integer."""
        value = self._get(key, int, default)
        if abs(value) > LONGEST:
            raise CheckpointError(f"{self.path}: '{key}' is {shortened(value)}, expected at most {LONGEST}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        """A count of things that have tensors of their own, such as layers."""
        value = self.integer(key, default)
        self.check_count(f"'{key}'", value)
        return value

    def check_count(self, name: str, value: int) -> None:
        """Raise CheckpointError where there are fewer tensors."""
        if value > self.room.count:
            raise CheckpointError(
                f"{self.path}: {name} is {shortened(value)}, but there are tensors for "
                f"at most {self.room.count}"
            )

    def check_width(self, name: str, value: int) -> None:
        """Raise CheckpointError where no tensor is that wide."""
        if value > self.room.width:
            raise CheckpointError(
                f"{self.path}: {name} is {value}, but no tensor is wider than {self.room.width}"
            )

    def positions(self, offset: int, key: str = "max_position_embeddings", default: int | None = None) -> int:
        """The rows of a computed position table: the number of positions plus `offset`."""
        if (most := self.integer(key, default)) > COMPUTED:
            raise UnsupportedError(
                f"{self.path}: '{key}' is {most}, positions are computed for at most {COMPUTED}"
            )
        return most + offset

    def each(self, key: str, layers: int, default: int) -> list[int]:
        """An integer for each of `layers`; a single value in config.json applies to all."""
        value = self._get(key, (int, list), default)
        numbers = value if isinstance(value, list) else [value] * layers
        if len(numbers) != layers or not all(
            type(number) is int and abs(number) <= LONGEST for number in numbers
        ):
            raise CheckpointError(
                f"{self.path}: '{key}' is {shortened(value)}, expected int, or {layers}, one for each layer"
            )
        return numbers

    def number(self, key: str, default: float | None = None) -> float:
        """A float."""
        value = self._get(key, (int, float), default)
        if not abs(value) <= sys.float_info.max:  # NaN included
            raise CheckpointError(f"{self.path}: '{key}' is {shortened(value)}, expected a finite number")
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """A boolean."""
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

    def integers(self, key: str) -> list[int]:
        """A list of whole numbers from 1."""
        values = self._get(key, list, None)
        if not all(
            isinstance(item, int) and type(item) is not bool and 1 <= item <= LONGEST for item in values
        ):
            raise CheckpointError(
                f"{self.path}: '{key}' is {shortened(values)}, expected whole numbers from 1"
            )
        return values

    def rows(self, *keys: str, of: str) -> list[tuple[int, ...]]:
        """The numbers of several lists of one length, side by side: a row for each `of`."""
        lists = [self.integers(key) for key in keys]
        counts = [len(numbers) for numbers in lists]
        if min(counts) < 1 or len({*counts}) > 1:
            raise CheckpointError(
                f"{self.path}: {', '.join(keys[:-1])} and {keys[-1]} have {counts} numbers, expected one "
                f"each for every {of}"
            )
        return list(zip(*lists, strict=True))

    def activation(self, key: str, default: str | None = None) -> Activation:
        """An activation by its name in transformers."""
        name = self.text(key, default)
        if name not in ACTIVATIONS:
            raise UnsupportedError(
                f"{self.path}: {key} '{name}' is not supported; expected one of {', '.join(ACTIVATIONS)}"
            )
        return ACTIVATIONS[name]

    def labels(self) -> int:
        """The number of labels of a classifier, as transformers determines it: num_labels before id2label."""
        named = self.values.get("id2label")
        return self.integer("num_labels", len(named) if isinstance(named, dict) else 2)

    def local_layers(self, otherwise: Callable[[int], bool], layers: str = "num_hidden_layers") -> list[bool]:
        """For each layer, tell whether it has a sliding window: by layer_types, else by `otherwise`."""
        kinds = self.layer_types("sliding_attention", "full_attention", layers=layers)
        if not kinds:
            return [otherwise(layer) for layer in range(self.count(layers))]
        return [kind == "sliding_attention" for kind in kinds]

    def dense_layers(self, first: int) -> list[bool]:
        """For each layer, tell whether it has no experts: by mlp_layer_types, else the first ones.

        These are first_k_dense_replace layers, or by default `first`.
        """
        kinds = self.layer_types("dense", "sparse", key="mlp_layer_types")
        first = self.integer("first_k_dense_replace", first)
        if not kinds:
            return [layer < first for layer in range(self.count("num_hidden_layers"))]
        return [kind == "dense" for kind in kinds]

    def layer_types(
        self, *known: str, layers: str = "num_hidden_layers", key: str = "layer_types"
    ) -> list[str]:
        """The value of `key`, one of `known` for each layer; empty if it is missing."""
        kinds, count = self.strings(key), self.count(layers)
        if kinds and (set(kinds) - set(known) or len(kinds) != count):
            raise UnsupportedError(
                f"{self.path}: {key} {kinds} is not supported; expected {' or '.join(known)} for each "
                f"of {count} layers"
            )
        return kinds

    def table(self, key: str) -> "Config":
        """A nested object, as a Config."""
        return Config(self._get(key, dict, {}), self.path, self.room)

    def text_model(self) -> "Config":
        """The text model of a model that reads images: text_config, in older files config.json itself."""
        nested = self.table("text_config")
        return nested if nested.values else self

    def with_defaults(self, **defaults: Any) -> "Config":
        """A copy with defaults for missing keys; null stays null."""
        return Config(defaults | dict(self.values), self.path, self.room)

    def replaced(self, **values: Any) -> "Config":
        """A copy with `values` replaced."""
        return Config(dict(self.values) | values, self.path, self.room)

    def renamed(self, aliases: Mapping[str, str]) -> "Config":
        """A copy with aliases renamed to the family's names.

        An alias takes precedence, as in transformers.
        """
        return self.replaced(**{aliases[key]: self.values[key] for key in aliases if key in self.values})

    def head_dim(self, width: int, heads: int) -> int:
        """The size of a head where heads divide `width` evenly."""
        self.check_width("width", width)
        if heads < 1 or width % heads:
            raise CheckpointError(f"{self.path}: width {width} cannot be split over {heads} heads")
        return width // heads

    def expect(self, **allowed: Any) -> None:
        """Raise UnsupportedError for each key that is present with a value other than the one allowed."""
        for key, wanted in allowed.items():
            value = self.values.get(key)
            if value is not None and value != wanted:
                raise UnsupportedError(
                    f"{self.path}: {key}={shortened(value)} is not supported; expected {shortened(wanted)}"
                )

    def check_supported(self, with_code: bool) -> None:
        """Refuse a checkpoint whose computation is defined by its own code, or by weights in other files.

        A family published `with_code`, before the library had it, may name code that computes the same.
        """
        if self.values.get("auto_map") and not with_code:
            raise UnsupportedError(f"{self.path}: auto_map names code of the checkpoint, which is never run")
        if self.values.get("transformers_weights"):
            raise UnsupportedError(
                f"{self.path}: transformers_weights names weights other than those that are read"
            )
        if (self.path.parent / "adapter_config.json").is_file():
            raise UnsupportedError(
                f"{self.path.parent} has an adapter_config.json; merge the adapter into the weights first"
            )


def shortened(value: object) -> str:
    """A value shortened for an error message."""
    if isinstance(value, int) and abs(value) > 10**50:
        return "a number of more than 50 digits"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def minimal_cycle(layers: Iterable[T]) -> tuple[T, ...]:
    """The shortest sequence whose repetition gives `layers`."""
    result = tuple(layers)
    for size in range(1, len(result)):
        if all(result[i] == result[i % size] for i in range(len(result))):
            return result[:size]
    return result
