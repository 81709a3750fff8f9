"""Contract, signature and port: the inputs and outputs of a model's graphs."""

from dataclasses import dataclass, field

from txexport.contracts import names, roles
from txexport.spec import Cache

INT, FLOAT, BOOL = "int64", "float", "bool"


@dataclass(frozen=True)
class Port:
    """An input or output of a graph; `dtype` is ONNX's name of its type.

    A string in `shape` is a symbolic dimension, "" one without a name.
    """

    name: str
    dtype: str
    shape: list[int | str]


@dataclass(frozen=True)
class Signature:
    """The inputs and outputs of one graph, in the order in which it declares them."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class Contract:
    """The layout of a model's graphs: the inputs of a decoder's step, and the kind of cache.

    `cache` is None if there is no cache. A step takes `step` and the past, or after an encoder
    `step_after_encoder` and the past. `lengths` are the names of the dimension of keys and values in and out,
    `logits` that of the dimension of scored tokens. `role` is that of a decoder without an encoder. Graphs of
    the `hub` have the layout of other tools. Graphs that are `captured` avoid branches, and copies
    between processor and device, so that CUDA can capture a step (CUDA graphs). `outputs` are the outputs of
    every layer that the graphs also give, of `layer_outputs.OUTPUTS`.
    """

    name: str
    cache: Cache | None
    step: tuple[Port, ...] = field(default=(), hash=False)
    step_after_encoder: tuple[Port, ...] = field(default=(), hash=False)
    lengths: tuple[str, str] = ("", "")
    logits: str = ""
    role: str = roles.MODEL
    hub: bool = False
    captured: bool = False
    outputs: tuple[str, ...] = ()

    @property
    def shares_sources(self) -> bool:
        """True if adjacent rows of a step may share a source that has no mask; weights (B,N,S,E) do not."""
        return self.cache == Cache.STATIC and names.ATTENTIONS not in self.outputs


def ints(name: str, *shape: int | str) -> Port:
    """A port of int64 numbers."""
    return Port(name, INT, list(shape))


def floats(name: str, *shape: int | str) -> Port:
    """A port of float32 numbers."""
    return Port(name, FLOAT, list(shape))
