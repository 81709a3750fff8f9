"""Two sides over the same inputs: names matched, padding left out, every number compared."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from txexport.contracts import Port, cache_names
from txexport.contracts.names import ENCODER_ATTENTION_MASK
from txexport.errors import InputError
from txexport.runtime.arrays import KINDS, read_npz
from txexport.verification.checks import INPUTS_AND_OUTPUTS, Reach, TensorCheck, check_of
from txexport.verification.comparison.inputs import IDS, MASK, Choices, Feed, make
from txexport.verification.comparison.models import (
    Arrays,
    Graph,
    Module,
    Renamed,
    Side,
    declared,
    dtype_of,
    one_sided,
    one_sided_outputs,
)
from txexport.verification.comparison.ranges import index_limits


def merged(a: Side, b: Side) -> dict[str, Port]:
    """The inputs that both sides need, with the more specific of their declarations.

    Raises InputError for an input of one side alone, or with contradictory declarations.
    """
    ours = {name for name in a.inputs if not b.takes(name)}
    theirs = {name for name in b.inputs if not a.takes(name)}
    message = one_sided(a.name, ours, b.name, theirs, "takes")
    if message:
        raise InputError(f"the inputs do not match: {message}; --match A_NAME=B_NAME matches two")
    result = {}
    for name in [*a.inputs, *(name for name in b.inputs if name not in a.inputs)]:
        ports = [port for port in (a.inputs.get(name), b.inputs.get(name)) if port is not None]
        assert ports, "a graph declares all that it takes"
        result[name] = ports[0] if len(ports) == 1 else _joined(a.name, b.name, *ports)
    outputs = {**b.outputs, **a.outputs}
    return {name: _with_heads(port, outputs) for name, port in result.items()}


def _with_heads(port: Port, outputs: Mapping[str, Port]) -> Port:
    """A past port with heads and size of its present output, if a merged decoder leaves them open."""
    present = outputs.get(cache_names.to_present(port.name))
    if not cache_names.is_past(port.name) or present is None or len(present.shape) != len(port.shape):
        return port
    open_axes = (1, 3)  # heads and their size
    shape = [
        present.shape[axis] if axis in open_axes and isinstance(present.shape[axis], int) else dim
        for axis, dim in enumerate(port.shape)
    ]
    return Port(port.name, port.dtype, shape)


def _joined(a: str, b: str, one: Port, other: Port) -> Port:
    same = len(one.shape) == len(other.shape) and _is_float(one) == _is_float(other)
    pairs = list(zip(one.shape, other.shape, strict=False))
    if not same or any(isinstance(x, int) and isinstance(y, int) and x != y for x, y in pairs):
        raise InputError(f"input '{one.name}' is {declared(one)} in {a}, {declared(other)} in {b}")
    shape = [y if isinstance(y, int) else x for x, y in pairs]
    return Port(one.name, one.dtype, shape)


def _is_float(port: Port) -> bool:
    return dtype_of(port).kind == "f"


def feeds(
    a: Side, b: Side, files: Sequence[str | Path | Mapping[str, np.ndarray]], choices: Choices
) -> list[Feed]:
    """The user's inputs, or seeded ones for the declared ports. Raises InputError."""
    ports = merged(a, b)
    if not files:
        return make(ports, choices, _limits([a, b]))
    result = []
    for number, file in enumerate(files, 1):
        if isinstance(file, Mapping):
            feed = Feed(f"inputs {number}", {name: _numbers(name, array) for name, array in file.items()})
        else:
            feed = Feed(str(file), read_npz(file, InputError))
        missing, unknown = ports.keys() - feed.inputs.keys(), feed.inputs.keys() - ports.keys()
        unknown = {name for name in unknown if not (a.takes(name) and b.takes(name))}
        if missing or unknown:
            problems = [f"lacks {', '.join(sorted(missing))}"] * bool(missing)
            problems += [f"has {', '.join(sorted(unknown))}, which not both take"] * bool(unknown)
            raise InputError(f"{feed.name} {' and '.join(problems)}")
        result.append(feed)
    return result


def _numbers(name: str, array: object) -> np.ndarray:
    try:
        result = np.asarray(array)
    except (TypeError, ValueError, OverflowError):  # rows of several lengths
        result = np.asarray(None)
    if result.dtype.kind not in KINDS:
        raise InputError(f"input '{name}' is {result.dtype}, expected an array of numbers")
    return result


def _limits(sides: Sequence[Side]) -> dict[str, int]:
    result: dict[str, int] = {}
    for side in sides:
        names = side.names if isinstance(side, Renamed) else {}
        graph = side.side if isinstance(side, Renamed) else side
        for own_name, rows in index_limits(graph.path).items() if isinstance(graph, Graph) else ():
            name = names.get(own_name, own_name)
            result[name] = min(rows, result.get(name, rows))
    return result


class Pair:
    """The comparison of two sides."""

    def __init__(self, a: Side, b: Side, outputs: Sequence[str], bound: float, reach: Reach):
        self.a, self.b, self.outputs, self.bound = a, b, outputs, bound
        self.reach = reach  # filled by the cases that run

    def names(self, feed: Feed) -> list[TensorCheck]:
        """Raise AssertionError for an output of one side alone, unless outputs were named."""
        ours, theirs = self._run(feed)
        message = one_sided_outputs(self.a.name, ours, self.b.name, theirs)
        if message and not self.outputs:
            raise AssertionError(message)
        return [TensorCheck(name, 1, 0.0, 0.0) for name in self._common(ours, theirs)]

    def case(self, feed: Feed) -> list[TensorCheck]:
        """Check every common output; outputs without numbers are equal if their shapes are.

        Inputs that neither side accepts are shortened; inputs that only one side accepts are a failure.
        """
        while feed.shorter is not None and not any(_takes(side, feed) for side in (self.a, self.b)):
            feed = feed.shorter()
        ours, theirs = self._run(feed)
        result = [(name, ours[name], theirs[name]) for name in self._common(ours, theirs)]
        return [
            self._check(name, array, expected, feed)
            for name, array, expected in result
            if array.size or array.shape != expected.shape
        ]

    def runs(self, feeds: Sequence[Feed]) -> dict[str, partial[list[TensorCheck]]]:
        """The cases by name, that of the names first."""
        return {INPUTS_AND_OUTPUTS: partial(self.names, feeds[0])} | {
            feed.name: partial(self.case, feed) for feed in feeds
        }

    def _common(self, ours: Arrays, theirs: Arrays) -> list[str]:
        for name in self.outputs:
            for side, result in ((self.a, ours), (self.b, theirs)):
                if name not in result:
                    raise AssertionError(f"{side.name} has no output {name}; it has {', '.join(result)}")
        return [name for name in self.outputs or ours if name in theirs]

    def _run(self, feed: Feed) -> tuple[Arrays, Arrays]:
        ours, theirs = self.a.run(feed.inputs), self.b.run(feed.inputs)
        for name, size in _dynamic(merged(self.a, self.b), feed.inputs):
            self.reach[name] = max(size, self.reach.get(name, (0,))[0]), None
        return _by_position(ours, theirs), _by_position(theirs, ours)

    def _check(self, name: str, found: np.ndarray, expected: np.ndarray, feed: Feed) -> TensorCheck:
        if found.shape == expected.shape:
            ports = [port for side in (self.a, self.b) if (port := side.outputs.get(name)) is not None]
            mask = not_padding(name, found.shape, ports, feed.inputs)
            found, expected = found[mask], expected[mask]
        return check_of(name, [(found, expected)], self.bound)


def _takes(side: Side, feed: Feed) -> bool:
    try:
        side.run(feed.inputs)
    except MemoryError:
        raise
    except Exception:  # of either runtime, for whatever is beyond its tables
        return False
    return True


def _dynamic(ports: Mapping[str, Port], inputs: Arrays) -> Iterator[tuple[str, int]]:
    """The dimensions that a graph leaves open, by name, with their sizes; that of a batch is "rows"."""
    for name, port in ports.items():
        for axis, (dim, size) in enumerate(zip(port.shape, inputs[name].shape, strict=False)):
            if isinstance(dim, int) or dim.isdigit() or "+" in dim:
                continue
            rows = "batch" in dim or (not dim and axis == 0)
            yield "rows" if rows else dim or f"{name}[{axis}]", size


def _by_position(found: Arrays, other: Arrays) -> Arrays:
    """Outputs without names by those of the other side, in order, if there are as many."""
    unnamed = all(name.replace(".", "").isdigit() for name in found)
    return dict(zip(other, found.values(), strict=True)) if unnamed and len(found) == len(other) else found


def not_padding(
    name: str, shape: tuple[int, ...], ports: Sequence[Port], inputs: Mapping[str, np.ndarray]
) -> np.ndarray | tuple:
    """The mask of an output's numbers outside of padding: of each token, or of each slot of a cache.

    As in verify, only padding positions of a row are left out.
    """
    everything: tuple = ()
    if cache_names.is_present(name) and len(shape) == 4:
        mask = inputs.get(ENCODER_ATTENTION_MASK if cache_names.is_cross(name) else MASK)
        if mask is None and cache_names.is_cross(name):
            mask = inputs.get(MASK)
        slots = None if mask is None or mask.ndim != 2 else mask.astype(bool)
        if slots is None or slots.shape != (shape[0], shape[2]):
            return everything
        return np.broadcast_to(slots[:, None, :, None], shape)
    mask = inputs.get(MASK)
    ids = next((inputs[known] for known in IDS if known in inputs), mask)
    if mask is None or ids is None or mask.ndim != 2 or ids.ndim < 2 or mask.shape[0] != ids.shape[0]:
        return everything
    tokens = mask[:, mask.shape[1] - ids.shape[1] :].astype(bool)
    declared = [port.shape[1] for port in ports if len(port.shape) > 1]
    per_token = shape[:2] == tokens.shape and not any(_is_size(dim) for dim in declared)
    return tokens if per_token else everything


def _is_size(dim: int | str) -> bool:
    """True if a dimension is declared as something other than tokens: a number, a batch, or choices."""
    return isinstance(dim, int) or "batch" in dim or "choices" in dim


def parameters(*sides: Side) -> int:
    """The number of weights of the first side that is a graph."""
    plain = [side.side if isinstance(side, Renamed) else side for side in sides]
    return next((side.parameters for side in plain if isinstance(side, Graph)), 0)


def check_names(a: Side, b: Side, match: Mapping[str, str], outputs: Sequence[str]) -> None:
    """Raise InputError for a matched or wanted name that a side lacks."""
    theirs = [match.get(name, name) for name in outputs]
    for side, names, wanted in ((a, match.keys(), outputs), (b, match.values(), theirs)):
        if isinstance(side, Module):
            continue
        known = side.inputs.keys() | side.outputs.keys()
        for option, lost in (
            ("--match", [name for name in names if name not in known]),
            ("--output", [name for name in wanted if name not in side.outputs]),
        ):
            if lost:
                raise InputError(f"{option} names {', '.join(lost)}, which {side.name} does not have")
