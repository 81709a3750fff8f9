"""What a contract is, and the parts that contracts share."""

from dataclasses import dataclass, field

from txexport.contracts import roles
from txexport.spec import Cache

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
    """The layout of a model's graphs: the inputs of a decoder's step, and how its cache comes and goes.

    `cache` is None where nothing is kept. A step takes `step` and the past, or `step_after_encoder` where an
    encoder stands before the decoder; keys and values have the `lengths` in and out, scores `logits`. `role`
    is the one of a decoder alone. Of the `hub` are graphs as other tools write them. `outputs` are those of
    every layer that graphs give too, of `layer_outputs.OUTPUTS`.
    """

    name: str
    cache: Cache | None
    step: tuple[Port, ...] = field(default=(), hash=False)
    step_after_encoder: tuple[Port, ...] = field(default=(), hash=False)
    lengths: tuple[str, str] = ("", "")
    logits: str = ""
    role: str = roles.MODEL
    hub: bool = False
    outputs: tuple[str, ...] = ()


def ints(name: str, *shape: int | str) -> Port:
    """A port of whole numbers."""
    return Port(name, INT, list(shape))


def floats(name: str, *shape: int | str) -> Port:
    """A port of numbers."""
    return Port(name, FLOAT, list(shape))
