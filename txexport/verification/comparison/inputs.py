"""Seeded inputs for the ports that a graph declares: several sizes, ragged if there is a mask."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from txexport.contracts import Port
from txexport.contracts.cache_names import is_past
from txexport.contracts.names import (
    ATTENTION_MASK,
    CACHE_LENGTHS,
    CAPACITY,
    INPUT_IDS,
    LOGITS_INDICES,
    PAST_ENCODER_SEQUENCE_LENGTH,
    POSITION_IDS,
    USE_CACHE_BRANCH,
)
from txexport.errors import InputError
from txexport.runtime.arrays import MAX_BYTES
from txexport.verification.comparison.models import dtype_of

MASK = ATTENTION_MASK
SPARE = 3  # unfilled slots of a static cache
IDS = (INPUT_IDS, "decoder_input_ids", "inputs_embeds", "decoder_inputs_embeds")


@dataclass(frozen=True)
class Feed:
    """One case: a name and inputs; `shorter` gives a shorter case to try if neither side accepts this one."""

    name: str
    inputs: dict[str, np.ndarray]
    shorter: "Callable[[], Feed] | None" = None


@dataclass(frozen=True)
class Sizes:
    """A batch of `rows` with `new` tokens after `past` ones; `side` is that of the padding of ragged rows."""

    name: str
    rows: int
    new: int
    past: int = 0
    side: str | None = None


SIZES = (
    Sizes("one token", 1, 1),
    Sizes("one row of odd length", 1, 7),
    Sizes("two equal rows", 2, 6),
    Sizes("three ragged rows, right padding", 3, 11, side="right"),
    Sizes("three ragged rows, left padding", 3, 11, side="left"),
    Sizes("one token after 5", 1, 1, 5),
    Sizes("two rows of 3 tokens after 4", 2, 3, 4),
    Sizes("a token after three ragged rows, left padding", 3, 1, 6, "left"),
    Sizes("nine rows", 9, 13),
)
LONGEST, SHORTEST = 384, 6  # tokens of the long cases, halved until one of the two sides accepts them


@dataclass(frozen=True)
class Choices:
    """Ranges of integer inputs (low, high excluded), sizes of dimensions, and further lengths."""

    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    lengths: Sequence[int] = ()


def make(ports: Mapping[str, Port], choices: Choices, limits: Mapping[str, int], seed: int = 0) -> list[Feed]:
    """Cases for those inputs; `limits` are the numbers of rows of the tables that inputs index.

    Raises InputError for a dimension without a size and for integers without a range.
    """
    dims = {dim for port in ports.values() for dim in port.shape if isinstance(dim, str) and dim}
    for option, chosen, known in (("--range", choices.ranges, ports.keys()), ("--dim", choices.dims, dims)):
        unknown = ", ".join(sorted(chosen.keys() - known))
        if unknown:
            raise InputError(f"{option} names {unknown}, expected some of {', '.join(sorted(known))}")
    has_past = any(map(is_past, ports))
    masked = any(name.endswith(MASK) for name in ports)
    side = "right" if masked else None
    long = [Sizes("two long rows", 2, LONGEST, side=side), Sizes("one token after many", 1, 1, LONGEST)]
    further = [Sizes(f"two rows of {n}", 2, n, side=side) for n in choices.lengths]
    feeds, known_shapes = [], set()
    for sizes in (*SIZES, *long, *further):
        if (sizes.past and not has_past) or (sizes.side and not masked):
            continue
        maker = _Maker(ports, choices, limits, sizes, np.random.default_rng(seed))
        shapes = maker.shapes()
        _check_room(shapes)
        key = (*shapes.values(), sizes.side, sizes.past)
        if key not in known_shapes:
            known_shapes.add(key)
            feeds.append(maker.halving() if sizes in long else maker.feed())
    return feeds


def _check_room(shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise InputError for negative sizes, or for more bytes than a file of inputs may have."""
    total = sum(8 * math.prod(shape) for shape in shapes.values())
    if total > MAX_BYTES or any(size < 0 for shape in shapes.values() for size in shape):
        raise InputError(
            f"inputs {dict(shapes)} cannot be made; choose --dim and --length from 0 to {MAX_BYTES:,} bytes"
        )


class _Maker:
    """The inputs of one case."""

    def __init__(
        self,
        ports: Mapping[str, Port],
        choices: Choices,
        limits: Mapping[str, int],
        sizes: Sizes,
        random: np.random.Generator,
    ):
        self.ports, self.choices, self.limits, self.sizes, self.random = ports, choices, limits, sizes, random
        tokens = next((ports[name] for name in IDS if name in ports), None)
        self.tokens = tokens.shape[1] if tokens is not None and len(tokens.shape) > 1 else None

    def feed(self) -> Feed:
        """The case."""
        return Feed(self.sizes.name, self.arrays(self.shapes()))

    def halving(self) -> Feed:
        """The case, whose `shorter` has half as many tokens, down to SHORTEST."""
        sizes = replace(self.sizes, new=max(1, self.sizes.new // 2), past=self.sizes.past // 2)
        half = _Maker(self.ports, self.choices, self.limits, sizes, self.random)
        last = max(sizes.new, sizes.past) < SHORTEST or half.shapes() == self.shapes()
        return replace(self.feed(), shorter=None if last else half.halving)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each input."""
        return {
            name: tuple(self._size(port, axis, dim) for axis, dim in enumerate(port.shape))
            for name, port in self.ports.items()
        }

    def _size(self, port: Port, axis: int, dim: int | str) -> int:
        if isinstance(dim, int) or dim.isdigit():
            return int(dim)
        known = self.choices.dims.get(dim)
        size = known if known is not None else self._guess(port, axis, dim)
        if size is None:
            name = dim or f"number {axis}"
            advice = f"its size with --dim {dim}=SIZE" if dim else "inputs with --inputs"
            raise InputError(
                f"dimension '{name}' of input '{port.name}' has no size that can be guessed; give {advice}"
            )
        return size

    def _guess(self, port: Port, axis: int, dim: str) -> int | None:
        """The size of a dimension by its name, or else by its position."""
        sizes = self.sizes
        if "+" in dim:
            parts = [part.strip() for part in dim.split("+")]
            result = [int(part) if part.isdigit() else self._guess(port, axis, part) for part in parts]
            return None if None in result else sum(size for size in result if size is not None)
        for word, size in (
            ("batch", sizes.rows),
            (PAST_ENCODER_SEQUENCE_LENGTH, sizes.new + 2),
            ("total", sizes.past + sizes.new),
            ("past", sizes.past),
            (CAPACITY, sizes.past + sizes.new + SPARE),
            ("choices", 2),
        ):
            if word in dim:
                return size
        if dim and dim == self.tokens:
            return sizes.new
        if "source" in dim or ("encoder" in dim and "decoder" not in dim):
            return sizes.new + 2
        if "seq" in dim or "length" in dim or "tokens" in dim:
            return sizes.new
        if axis == 0:
            return sizes.rows
        if axis == 1 and len(port.shape) == 2 and dtype_of(port).kind in "iub":
            return sizes.new + (sizes.past if port.name == MASK else 0)
        return sizes.past if axis == 2 and is_past(port.name) else None

    def arrays(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
        """An array for each input."""
        masks = {name: self._mask(name, shape) for name, shape in shapes.items() if name.endswith(MASK)}
        result = {}
        for name, shape in shapes.items():
            array = masks[name] if name in masks else self._array(self.ports[name], shape, masks.get(MASK))
            result[name] = array.astype(dtype_of(self.ports[name]))
        return result

    def _mask(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """1 for tokens and 0 for padding: on either side of new tokens, or on the left of past ones."""
        if len(shape) not in (2, 3):
            raise InputError(f"no '{name}' of {len(shape)} dimensions can be made; give inputs with --inputs")
        width, sizes = shape[-1], self.sizes
        if name.startswith("global"):
            return (self.random.random(shape) < 0.2).astype(np.int64)
        mask = np.ones((int(np.prod(shape[:-1])), width), np.int64)
        right = sizes.side == "right" or name != MASK
        for row in range(len(mask)):
            most = sizes.past if sizes.past and name == MASK else width
            real = [max(1, most // 2), most, 1][row % 3] if sizes.side else most
            if right:
                mask[row, real:most] = 0
            else:
                mask[row, : most - real] = 0
        return mask.reshape(shape)

    def _array(self, port: Port, shape: tuple[int, ...], mask: np.ndarray | None) -> np.ndarray:
        name, past = port.name, self.sizes.past
        if name == POSITION_IDS and len(shape) == 2:
            if mask is None or mask.shape[0] != shape[0] or mask.shape[1] < shape[1]:
                return np.broadcast_to(past + np.arange(shape[1]), shape)
            return ((mask.cumsum(axis=1) - 1) * mask)[:, -shape[1] :]
        if name == "cache_position":
            return past + np.arange(shape[0])
        if name == USE_CACHE_BRANCH:
            return np.full(shape, past > 0)
        if name == CACHE_LENGTHS:
            return np.full(shape, past)
        if dtype_of(port).kind == "b":
            return self.random.random(shape) < 0.5
        if dtype_of(port).kind == "f":
            return self.random.standard_normal(shape)
        return self.random.integers(*self._range(name), shape)

    def _range(self, name: str) -> tuple[int, int]:
        if name in self.choices.ranges:
            return self.choices.ranges[name]
        if name == LOGITS_INDICES:
            return 0, self.sizes.new
        if name not in self.limits:
            raise InputError(
                f"no range is known for the integers of input '{name}'; give it with --range {name}=LOW:HIGH"
            )
        return 0, self.limits[name]
