"""What a contract is, and the parts that contracts share."""

from collections.abc import Callable
from dataclasses import dataclass

from txexport.spec import Cache, ModelSpec

INT, FLOAT, BOOL = "int64", "float", "bool"


@dataclass(frozen=True)
class Port:
    """An input or output of a graph, its type in ONNX's word.

    A string in `shape` is a symbolic dimension, "" one without a name.
    """

    name: str
    dtype: str
    shape: list[int | str]


@dataclass(frozen=True)
class Signature:
    """What one graph takes and gives, in the order in which it declares it."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class Contract:
    """The graphs of a model by role, and what each takes and gives.

    `cache` is how past keys and values come and go, None where nothing is kept. `outputs` are those of every
    layer that its graphs give too, of `layer_outputs.OUTPUTS`.
    """

    name: str
    cache: Cache | None
    graphs: Callable[[ModelSpec], dict[str, Signature]]
    outputs: tuple[str, ...] = ()


def ints(name: str, *shape: int | str) -> Port:
    """A port of whole numbers."""
    return Port(name, INT, list(shape))


def floats(name: str, *shape: int | str) -> Port:
    """A port of numbers."""
    return Port(name, FLOAT, list(shape))
