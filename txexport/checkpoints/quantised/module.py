"""The tensors of one module, such as a Linear, by their suffix."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from txexport.checkpoints.stored import FLOATS, Stored
from txexport.errors import CheckpointError

ANY_FLOAT = tuple(FLOATS)


class Module:
    """A module's tensors by leaf: "qweight", "bias", "weight.absmax". Tensors that were taken are removed."""

    def __init__(self, name: str):
        self.name = name
        self.parts: dict[str, Stored] = {}

    def full(self, leaf: str) -> str:
        """A tensor's name in the checkpoint."""
        return f"{self.name}.{leaf}" if self.name else leaf

    def left(self) -> Iterator[tuple[str, Stored]]:
        """The names of tensors that no reader took."""
        yield from self.parts.items()

    def take(self, leaf: str, dtypes: Sequence[str], rank: int | None = None) -> "Part":
        """A required tensor, of one of `dtypes` and with `rank` axes. Raises CheckpointError."""
        if leaf not in self.parts:
            raise CheckpointError(f"tensor '{self.full(leaf)}' is missing")
        part = Part(self.full(leaf), self.parts.pop(leaf))
        if part.stored.dtype not in dtypes:
            raise CheckpointError(
                f"tensor '{part.name}' is {part.stored.dtype}, expected {' or '.join(dtypes)}"
            )
        if rank is not None and len(part.shape) != rank:
            raise CheckpointError(f"tensor '{part.name}' is {part.shape}, expected {rank} axes")
        if 0 in part.shape:
            raise CheckpointError(f"tensor '{part.name}' has the shape {part.shape}, and no values")
        return part

    def maybe(self, leaf: str, dtypes: Sequence[str], rank: int | None = None) -> "Part | None":
        """As `take`, or None if there is none."""
        return self.take(leaf, dtypes, rank) if leaf in self.parts else None


class Part:
    """One tensor of a module, not read yet."""

    def __init__(self, name: str, stored: Stored):
        self.name, self.stored = name, stored

    @property
    def shape(self) -> tuple[int, ...]:
        """As stored."""
        return self.stored.shape

    def expect(self, *shapes: tuple[int, ...]) -> None:
        """Raise CheckpointError unless it has one of `shapes`."""
        if self.shape not in shapes:
            raise CheckpointError(
                f"tensor '{self.name}' is {self.shape}, expected {' or '.join(map(str, shapes))}"
            )

    def of(self, number: int) -> "Part":
        """The part at index `number` of the first axis."""
        return Part(self.name, self.stored.at(number))

    def array(self) -> np.ndarray:
        """Its numbers: floats as float32, integers and codes unchanged."""
        return self.stored.array(self.name)

    def scales(self) -> np.ndarray:
        """Its numbers as scales: float32. Raises CheckpointError if one is not finite."""
        scales = self.array()
        if not np.isfinite(scales).all():
            raise CheckpointError(f"tensor '{self.name}' holds a scale that is not finite")
        return scales


def nbytes_of(*parts: Part | None) -> int:
    """The number of bytes of all parts that exist."""
    return sum(part.stored.nbytes for part in parts if part is not None)


def by_module(tensors: Mapping[str, Stored]) -> list[Module]:
    """Tensors by module: "a.b.qweight" belongs to a.b, and so does "a.b.weight.absmax"."""
    modules: dict[str, Module] = {}
    for name, stored in tensors.items():
        before, inner, after = name.partition(".weight.")
        module, leaf = (before, f"weight.{after}") if inner else _split(name)
        modules.setdefault(module, Module(module)).parts[leaf] = stored
    return list(modules.values())


def _split(name: str) -> tuple[str, str]:
    module, _, leaf = name.rpartition(".")
    return module, leaf
