"""Weight tables: rules that map the tensors of a checkpoint to the parameters of a spec.

A rule's key is a parameter name, in which `{i}` stands for a layer's number and a final `*` for `weight` or
`bias`; its sources use the same placeholders.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np


@dataclass(frozen=True)
class Take:
    """The source of a parameter: the tensor `source`, or one of `also`; if several exist, they must be equal.

    `fallback`, another name or another layout, is read where there is none of those, and ignored elsewhere.
    Where the checkpoint has none at all, `computed` makes the numbers from the shape.
    `transpose` reads a matrix stored (in, out). From a tensor that holds several parameters one after another
    along `out`, in `parts` of one size, those from `part` on are cut, `width` of them; where it holds them in
    `groups`, one head's parts before the next head's, from each group; where they lie `along_inputs`, one
    along `in`. Numbers stored with a `leading_axis` have one of size 1 before ours, those with a
    `trailing_axis` one after ours, those with `no_leading_axis` lack ours. `plus` is added to every number.
    `times` are factors of the parameter's rows from the first on, each with its number of rows.
    Where so many `experts` keep theirs in one tensor, along an axis before all others, it is that of number
    `expert`, and all else is said of its part.
    The last axis is stored as several axes, of the sizes `apart`.
    `norms` is the tensor of a normalised weight's norms, one for each index of its last axis, and `source`
    its direction (Salimans and Kingma 2016, 2.1). The rows of the tensors `joined` follow those of `source`,
    however many each has.
    """

    source: str
    also: tuple[str, ...] = ()
    fallback: "str | Take" = ""
    transpose: bool = False
    part: int = 0
    parts: int = 1
    groups: int = 1
    width: int = 1
    along_inputs: bool = False
    leading_axis: bool = False
    no_leading_axis: bool = False
    trailing_axis: bool = False
    plus: float = 0.0
    times: tuple[tuple[int, float], ...] = ()
    expert: int = 0
    experts: int = 0
    apart: tuple[int, ...] = ()
    norms: str = ""
    joined: tuple[str, ...] = ()
    computed: Callable[[tuple[int, ...]], np.ndarray] | None = None

    def renamed(self, name: Callable[[str], str]) -> "Take":
        """The same of other tensors: `name` gives each one's new name."""
        fallback = self.fallback
        if fallback:
            fallback = name(fallback) if isinstance(fallback, str) else fallback.renamed(name)
        also, joined = (tuple(map(name, names)) for names in (self.also, self.joined))
        norms = self.norms and name(self.norms)
        return replace(
            self, source=name(self.source), also=also, fallback=fallback, norms=norms, joined=joined
        )

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in the checkpoint of a parameter of `shape`."""
        stored = (shape[0] // self.width * self.parts, *shape[1:])
        if self.along_inputs:
            stored = (shape[0], shape[1] * self.parts, *shape[2:])
        if self.transpose:
            stored = stored[::-1]
        stored = stored[1:] if self.no_leading_axis else stored
        stored = (1, *stored) if self.leading_axis else stored
        if self.apart:
            stored = (*stored[:-1], *self.apart)
        stored = (*stored, 1) if self.trailing_axis else stored
        return (self.experts, *stored) if self.experts else stored

    @property
    def number(self) -> int | None:
        """The expert whose part of a tensor it is; None if the tensor is not that of several experts."""
        return self.expert if self.experts else None

    def own(self, stored: np.ndarray) -> np.ndarray:
        """All of a tensor, or its expert's part of it; a view."""
        return stored[self.expert] if self.experts else stored

    def cut(self, stored: np.ndarray) -> np.ndarray:
        """The parameter, from the result of `own`."""
        stored_in_order = self._with_our_axes(stored)
        if self.along_inputs:
            return np.ascontiguousarray(stored_in_order[:, self._inputs(stored_in_order)])
        grouped = stored_in_order.reshape(self.groups, self.parts, -1, *stored_in_order.shape[1:])
        taken = grouped[:, self.part : self.part + self.width]
        numbers = np.ascontiguousarray(taken).reshape(-1, *stored_in_order.shape[1:])
        numbers = numbers + np.float32(self.plus) if self.plus else numbers
        return numbers * self._factors(numbers.ndim) if self.times else numbers

    def paste(self, stored: np.ndarray, numbers: np.ndarray) -> None:
        """Write a parameter's numbers into the result of `own`: the inverse of `cut`."""
        stored_in_order = self._with_our_axes(stored)
        if self.along_inputs:
            stored_in_order[:, self._inputs(stored_in_order)] = numbers
            return
        grouped = stored_in_order.reshape(
            self.groups, self.parts, -1, *stored_in_order.shape[1:]
        )  # a view of the same memory
        place = grouped[:, self.part : self.part + self.width]
        numbers = numbers / self._factors(numbers.ndim) if self.times else numbers
        place[...] = numbers.reshape(place.shape) - np.float32(self.plus)

    def _factors(self, axes: int) -> np.ndarray:
        """The factor of each row, with one axis for each of the parameter's."""
        rows, factors = zip(*self.times, strict=True)
        return np.repeat(np.array(factors, np.float32), rows).reshape(-1, *[1] * (axes - 1))

    def _inputs(self, whole: np.ndarray) -> slice:
        """The columns of our matrix that are the part's."""
        size = whole.shape[1] // self.parts
        return slice(self.part * size, (self.part + 1) * size)

    @property
    def along_outputs(self) -> bool:
        """True if the parameter is some or all of the checkpoint's rows, unchanged."""
        changed = (
            self.transpose,
            self.along_inputs,
            self.leading_axis,
            self.no_leading_axis,
            self.trailing_axis,
            self.plus,
            self.times,
            self.apart,
        )
        return not any(changed)

    @property
    def plain(self) -> bool:
        """True if the bytes are the checkpoint's own."""
        return self.parts == 1 and self.along_outputs

    def _with_our_axes(self, stored: np.ndarray) -> np.ndarray:
        """The stored tensor with the axes of the parameter, in our order; a view."""
        if self.apart:
            stored = stored.reshape(*stored.shape[: -len(self.apart)], -1)
        if self.trailing_axis:
            stored = stored[..., 0]
        if self.leading_axis:
            stored = stored[0]
        if self.no_leading_axis:
            stored = stored[None]
        return stored.T if self.transpose else stored


def normalised(direction: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """The weight (...,K) float32 with the direction (...,K) and the norms (K) of its slices."""
    slices = tuple(range(direction.ndim - 1))
    sizes = np.sqrt(np.square(direction, dtype=np.float64).sum(axis=slices))
    with np.errstate(divide="ignore", invalid="ignore"):  # a direction of zeros gives NaN, which readers name
        return (direction * (norms.astype(np.float64).reshape(-1) / sizes)).astype(np.float32)


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    """A bias of zeros for Take's `computed`."""
    return np.zeros(shape, np.float32)


Rules = dict[str, str | Take]


def taken(rule: str | Take) -> Take:
    """A rule as a Take; a name alone takes all of a tensor as it is."""
    return Take(rule) if isinstance(rule, str) else rule


@dataclass(frozen=True)
class Naming:
    """Variations of names: `prefix` or one of `others` may precede a name, and endings may be older ones.

    `rename` maps old endings to new ones. Names inside one of `parts` vary as that part's names do.
    """

    prefix: str = ""
    rename: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    parts: "Mapping[str, Naming]" = field(default_factory=dict)

    def canonical(self, name: str) -> str:
        """A checkpoint's name of a tensor as the rules write it."""
        for prefix in ("", self.prefix, *self.others):
            inner = name.removeprefix(prefix)
            for part, naming in self.parts.items():
                if name.startswith(prefix) and inner.startswith(part):
                    return part + naming.canonical(inner.removeprefix(part))
        for prefix in (self.prefix, *self.others):
            if name.startswith(prefix):
                name = name.removeprefix(prefix)
                break
        for old, new in self.rename.items():
            if name.endswith(old):
                name = name.removesuffix(old) + new
        return name


@dataclass(frozen=True)
class Table:
    """A family's rules; `drop` names tensors that the task does not use."""

    rules: Rules
    naming: Naming = Naming()
    drop: tuple[str, ...] = ()
