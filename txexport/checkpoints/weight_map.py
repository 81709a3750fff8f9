"""The table of weight names: which numbers of a checkpoint fill which parameter of a spec.

A rule's key is a parameter name, in which `{i}` stands for a layer's number and a last `*` for `weight` or
`bias`; its sources use the same marks. The table must balance: every parameter filled, every tensor used
or dropped by name.
"""

import fnmatch
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.quantised.matrix import Matrix
from txexport.checkpoints.stored import Stored
from txexport.errors import CheckpointError
from txexport.formats.blocks import Blocks
from txexport.spec.shapes import Shapes

AT_ONCE = 1 << 16  # numbers looked at together
LARGEST = 1e15  # of a weight: norms square what they normalise, and implementations then differ


@dataclass(frozen=True)
class Take:
    """Where a parameter lies: the tensor `source`, or one of `also`, and any two present must be equal.

    `fallback` is read where there is none of those, and ignored elsewhere. Where the checkpoint has none at
    all, `computed` makes the numbers from the shape.
    `transpose` reads a matrix stored (in, out). From a tensor that holds several parameters one after another
    along `out`, in `parts` of one size, those from `part` on are cut, `width` of them; where it holds them in
    `groups`, one head's parts before the next head's, from each group; where they lie `along_inputs`, one
    along `in`. Numbers stored with a `leading_axis` have one of size 1 before ours, those with
    `no_leading_axis` lack ours. `plus` is added to every number. Where so many `experts` keep theirs in one
    tensor, along an axis before all others, it is that of number `expert`, and all else is said of its part.
    The last axis is stored in two, one of so many `heads` and one of each head's numbers.
    """

    source: str
    also: tuple[str, ...] = ()
    fallback: str = ""
    transpose: bool = False
    part: int = 0
    parts: int = 1
    groups: int = 1
    width: int = 1
    along_inputs: bool = False
    leading_axis: bool = False
    no_leading_axis: bool = False
    plus: float = 0.0
    expert: int = 0
    experts: int = 0
    heads: int = 0
    computed: Callable[[tuple[int, ...]], np.ndarray] | None = None

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in the checkpoint of a parameter of `shape`."""
        stored = (shape[0] // self.width * self.parts, *shape[1:])
        if self.along_inputs:
            stored = (shape[0], shape[1] * self.parts)
        if self.transpose:
            stored = stored[::-1]
        stored = stored[1:] if self.no_leading_axis else stored
        stored = (1, *stored) if self.leading_axis else stored
        if self.heads:
            stored = (*stored[:-1], self.heads, stored[-1] // self.heads)
        return (self.experts, *stored) if self.experts else stored

    @property
    def number(self) -> int | None:
        """Whose part of a tensor of several experts it is; None where it is no such tensor."""
        return self.expert if self.experts else None

    def own(self, stored: np.ndarray) -> np.ndarray:
        """A whole tensor, or its expert's part of it; a view."""
        return stored[self.expert] if self.experts else stored

    def cut(self, stored: np.ndarray) -> np.ndarray:
        """The parameter, from what `own` gives of the tensor that holds it."""
        whole = self._with_our_axes(stored)
        if self.along_inputs:
            return np.ascontiguousarray(whole[:, self._inputs(whole)])
        grouped = whole.reshape(self.groups, self.parts, -1, *whole.shape[1:])
        taken = grouped[:, self.part : self.part + self.width]
        numbers = np.ascontiguousarray(taken).reshape(-1, *whole.shape[1:])
        return numbers + np.float32(self.plus) if self.plus else numbers

    def paste(self, stored: np.ndarray, numbers: np.ndarray) -> None:
        """Write a parameter's numbers into what `own` gives: the inverse of `cut`."""
        whole = self._with_our_axes(stored)
        if self.along_inputs:
            whole[:, self._inputs(whole)] = numbers
            return
        grouped = whole.reshape(self.groups, self.parts, -1, *whole.shape[1:])  # of the same memory
        place = grouped[:, self.part : self.part + self.width]
        place[...] = numbers.reshape(place.shape) - np.float32(self.plus)

    def _inputs(self, whole: np.ndarray) -> slice:
        """Which columns of a matrix of ours are the part's."""
        size = whole.shape[1] // self.parts
        return slice(self.part * size, (self.part + 1) * size)

    @property
    def along_outputs(self) -> bool:
        """Whether rows are the checkpoint's own, if not all of them."""
        changed = (
            self.transpose,
            self.along_inputs,
            self.leading_axis,
            self.no_leading_axis,
            self.plus,
            self.heads,
        )
        return not any(changed)

    @property
    def plain(self) -> bool:
        """Whether the bytes are the checkpoint's own."""
        return self.parts == 1 and self.along_outputs

    def _with_our_axes(self, stored: np.ndarray) -> np.ndarray:
        """The stored tensor with the axes of what is cut from it, in our order; a view."""
        if self.heads:
            stored = stored.reshape(*stored.shape[:-2], -1)
        if self.leading_axis:
            stored = stored[0]
        if self.no_leading_axis:
            stored = stored[None]
        return stored.T if self.transpose else stored


def zeros(shape: tuple[int, ...]) -> np.ndarray:
    """A bias that no file has, for Take's `computed`."""
    return np.zeros(shape, np.float32)


Rules = dict[str, str | Take]


@dataclass(frozen=True)
class Naming:
    """How a checkpoint's names vary: `prefix`, or one of `others`, may precede any, and endings be older.

    `rename` maps old endings to new ones. What follows the name of one of `parts` varies as that one's names.
    """

    prefix: str = ""
    rename: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    parts: "Mapping[str, Naming]" = field(default_factory=dict)

    def canonical(self, name: str) -> str:
        """A checkpoint's name for a tensor as the rules write it."""
        for part, naming in self.parts.items():
            if name.startswith(part):
                return part + naming.canonical(name.removeprefix(part))
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
    """A family's rules; `drop` names tensors with no part in the mathematics asked for."""

    rules: Rules
    naming: Naming = Naming()
    drop: tuple[str, ...] = ()


@dataclass(frozen=True)
class Weight:
    """A parameter and the tensors of a checkpoint that hold it; none where it is computed."""

    shape: tuple[int, ...]
    tensors: tuple[str, ...]
    take: Take
    parameter: str = field(default="", compare=False)

    @property
    def key(self) -> tuple:
        """Equal for parameters whose numbers are the same, so that they are stored once."""
        take = self.take
        if not self.tensors:
            return take.computed, self.shape
        cut = take.transpose, take.part, take.parts, take.groups, take.width, take.plus, take.heads
        return self.tensors[0], take.number, *cut

    def rows(self, checkpoint: Checkpoint) -> Iterator[np.ndarray]:
        """The parameter as float32, in blocks of rows. Raises CheckpointError for what is not finite."""
        if not self.tensors:
            assert self.take.computed is not None
            yield self.take.computed(self.shape)
            return
        name, take = self.tensors[0], self.take
        own = name, take.number
        for block in checkpoint.rows(*own) if take.plain else [take.cut(checkpoint.read(*own))]:
            check_finite(block, f"tensor '{name}', which fills {self.parameter},")
            yield block

    def blocks(self, checkpoint: Checkpoint) -> Blocks | None:
        """The parameter as integers and scales, of which `rows` are the products; None where it has none.

        Raises CheckpointError for scales that are not finite.
        """
        blocks = checkpoint.blocks(self.tensors[0], self.take.number) if self.tensors else None
        if blocks is None or not self.take.along_outputs:
            return None
        check_finite(blocks.scales, f"what scales tensor '{self.tensors[0]}'")
        if self.take.plain:
            return blocks
        return blocks.outputs(self.take.cut(np.arange(blocks.shape[0])))

    def rounds(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint means what is multiplied with it to be rounded; see Checkpoint.rounds."""
        return bool(self.tensors) and checkpoint.rounds(self.tensors[0])


def check_finite(numbers: np.ndarray, what: str) -> None:
    """Raise CheckpointError where `what` holds NaN, infinity, or what float32 cannot compute with."""
    flat = numbers.reshape(-1)
    for start in range(0, flat.size, AT_ONCE):  # small enough to stay in a processor's cache
        part = flat[start : start + AT_ONCE]
        low, high = part.min(), part.max()  # NaN where there is one
        if not (np.isfinite(low) and np.isfinite(high)):
            raise CheckpointError(f"{what} holds NaN or infinity as float32; train or convert it again")
        if max(-low, high) > LARGEST:
            raise CheckpointError(
                f"{what} holds {max(-low, high):.1e}; expected at most {LARGEST:.0e}, of which float32 can "
                "still sum the squares; train or convert it again"
            )


def stored_names(weights: Mapping[str, Weight], formats: Mapping[str, str] | None = None) -> dict[str, str]:
    """For each parameter the first with the same numbers, and the same of `formats`: these are stored."""
    first: dict[tuple, str] = {}
    kinds = formats or {}
    return {name: first.setdefault((weight.key, kinds.get(name)), name) for name, weight in weights.items()}


def names(naming: Naming, checkpoint: Checkpoint) -> dict[str, str]:
    """The checkpoint's tensor names by canonical name."""
    result: dict[str, str] = {}
    for name in checkpoint.tensors:
        other = result.setdefault(naming.canonical(name), name)
        if other != name:
            raise CheckpointError(f"tensors '{other}' and '{name}' have one meaning; expected one of them")
    return result


def resolve(table: Table, shapes: Shapes, checkpoint: Checkpoint) -> dict[str, Weight]:
    """A weight for every parameter in `shapes`.

    Raises one CheckpointError that lists every parameter without a tensor, every tensor that is neither
    used nor dropped, and every shape that disagrees with config.json.
    """
    tensor_names = names(table.naming, checkpoint)
    rules = [(_pattern(key), _take(rule)) for key, rule in table.rules.items()]
    used: set[str] = set()
    missing, disagreeing, weights = [], [], {}
    for parameter, shape in shapes.items():
        ruled = next(((m, take) for pattern, take in rules if (m := pattern.fullmatch(parameter))), None)
        if ruled is None:
            missing.append(f"{parameter}, for which there is no rule")
            continue
        match, take = ruled
        sources = [_fill(name, match) for name in (take.source, *take.also)]
        present = [tensor_names[name] for name in sources if name in tensor_names]
        spare = tensor_names.get(_fill(take.fallback, match)) if take.fallback else None
        if spare is not None:
            used.add(spare)
            present = present or [spare]
        used |= set(present)
        if any(not isinstance(checkpoint.tensors[name], Stored) for name in present):
            take = replace(take, transpose=False)  # packed matrices are (out,in), whatever was packed
        if not present and take.computed is None:
            missing.append(sources[0])
        expected = take.stored_shape(shape)
        for name in present:
            if checkpoint.tensors[name].shape != expected:
                disagreeing.append(_disagreement(name, expected, checkpoint))
        if present or take.computed is not None:
            weights[parameter] = Weight(shape, tuple(present), take, parameter)
    unused = [
        name
        for canonical, name in tensor_names.items()
        if name not in used
        and not any(fnmatch.fnmatchcase(canonical, drop) for drop in table.drop)
        and not _is_filler(name, checkpoint)
    ]
    problems = disagreeing.copy()
    if missing:
        problems.append(f"missing: {', '.join(missing)}")
    if unused:
        problems.append(f"unused: {', '.join(unused)}")
    if problems:
        raise CheckpointError(f"{checkpoint.folder} does not fit its config.json: {'; '.join(problems)}")
    _compare_copies(weights, checkpoint)
    return weights


def _pattern(key: str) -> re.Pattern:
    return re.compile(re.escape(key).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\*", r"(?P<leaf>\w+)"))


def _take(rule: str | Take) -> Take:
    return Take(rule) if isinstance(rule, str) else rule


def _fill(source: str, match: re.Match) -> str:
    groups = match.groupdict()
    return source.replace("{i}", groups.get("i", "")).replace("*", groups.get("leaf", ""))


def _is_filler(name: str, checkpoint: Checkpoint) -> bool:
    """Whether a tensor is the bias of zeros that older writers of GPTQ gave every matrix."""
    module, _, leaf = name.rpartition(".")
    packed = isinstance(checkpoint.tensors.get(f"{module}.weight"), Matrix)
    return packed and leaf == "bias" and not checkpoint.read(name).any()


def _disagreement(name: str, expected: tuple[int, ...], checkpoint: Checkpoint) -> str:
    shape = checkpoint.tensors[name].shape
    wrong = set(expected) - set(shape) or set(expected)
    config = checkpoint.config
    sizes = [f"{key}={value}" for key, value in config.items() if type(value) is int and value in wrong]
    because = f" (config.json says {', '.join(sizes)})" if sizes else ""
    return f"tensor '{name}' is {shape}, expected {expected}{because}"


def _compare_copies(weights: Mapping[str, Weight], checkpoint: Checkpoint) -> None:
    """Tensors that config.json ties are one matrix; where a checkpoint keeps copies, they must agree."""
    for weight in weights.values():
        for other in weight.tensors[1:]:
            first = weight.tensors[0]
            pairs = zip(checkpoint.rows(first), checkpoint.rows(other), strict=True)
            if not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs):  # NaN is named by `rows`
                raise CheckpointError(
                    f"config.json ties '{other}' to '{first}', but their numbers differ; "
                    'if they are meant to, set "tie_word_embeddings": false'
                )
