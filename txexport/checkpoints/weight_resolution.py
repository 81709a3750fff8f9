"""Resolves a weight table: finds the tensors of a checkpoint that fill each parameter.

Every parameter must be filled, and every tensor used or dropped by name.
"""

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.quantised.matrix import Matrix
from txexport.checkpoints.stored import Stored
from txexport.checkpoints.weight_map import Naming, Table, Take, normalised, taken
from txexport.errors import CheckpointError
from txexport.formats.blocks import Blocks
from txexport.spec.shapes import Shapes

AT_ONCE = 1 << 16  # numbers checked in one block, which fits a processor's cache
LISTED = 5  # problems of a kind that an error names
LARGEST = 1e15  # largest weight: a norm squares its input, and implementations then differ


@dataclass(frozen=True)
class Weight:
    """A parameter and the tensors of a checkpoint that hold it; none where it is computed.

    `norms` is the tensor with the norms of a normalised weight. The rows of the tensors `joined` follow.
    """

    shape: tuple[int, ...]
    tensors: tuple[str, ...]
    take: Take
    parameter: str = field(default="", compare=False)
    norms: str = ""
    joined: tuple[str, ...] = ()

    @property
    def key(self) -> tuple:
        """A key that is equal for parameters with the same numbers, which are stored once."""
        take = self.take
        if not self.tensors:
            return take.computed, self.shape
        cut = (
            take.transpose,
            take.part,
            take.parts,
            take.groups,
            take.width,
            take.plus,
            take.times,
            take.apart,
            self.norms,
            self.joined,
        )
        return self.tensors[0], take.number, *cut

    def rows(self, checkpoint: Checkpoint) -> Iterator[np.ndarray]:
        """The parameter as float32, in blocks of rows. Raises CheckpointError for NaN and infinity."""
        if not self.tensors:
            assert self.take.computed is not None
            yield self.take.computed(self.shape)
            return
        name, take = self.tensors[0], self.take
        if self.norms:
            yield self._normalised(checkpoint)
            return
        for one in (name, *self.joined):
            own = one, take.number
            for block in checkpoint.rows(*own) if take.plain else [take.cut(checkpoint.read(*own))]:
                check_finite(block, f"tensor '{one}', which fills {self.parameter},")
                yield block

    def _normalised(self, checkpoint: Checkpoint) -> np.ndarray:
        """The weight of a direction and its norms. Raises CheckpointError as `rows`."""
        arrays = []
        for name in (self.tensors[0], self.norms):
            arrays.append(checkpoint.read(name))
            check_finite(arrays[-1], f"tensor '{name}', which fills {self.parameter},")
        weight = normalised(*arrays)
        check_finite(weight, f"tensor '{self.tensors[0]}' with the norms '{self.norms}'")
        return weight

    def blocks(self, checkpoint: Checkpoint) -> Blocks | None:
        """The parameter as integers and scales, whose products `rows` returns; None if it has none.

        Raises CheckpointError for scales that are not finite.
        """
        blocks = checkpoint.blocks(self.tensors[0], self.take.number) if self.tensors else None
        if blocks is None or self.norms or self.joined or not self.take.along_outputs:
            return None
        check_finite(blocks.scales, f"what scales tensor '{self.tensors[0]}'")
        if self.take.plain:
            return blocks
        return blocks.outputs(self.take.cut(np.arange(blocks.shape[0])))

    def rounds(self, checkpoint: Checkpoint) -> bool:
        """Tell whether the checkpoint quantises its activations; see Checkpoint.rounds."""
        return bool(self.tensors) and checkpoint.rounds(self.tensors[0])


def check_finite(numbers: np.ndarray, what: str) -> None:
    """Raise CheckpointError if `what` has NaN, infinity, or numbers too large for float32 arithmetic."""
    flat = numbers.reshape(-1)
    for start in range(0, flat.size, AT_ONCE):  # small enough to stay in a processor's cache
        part = flat[start : start + AT_ONCE]
        low, high = part.min(), part.max()  # NaN if any number is NaN
        if not (np.isfinite(low) and np.isfinite(high)):
            raise CheckpointError(f"{what} holds NaN or infinity as float32; train or convert it again")
        if max(-low, high) > LARGEST:
            raise CheckpointError(
                f"{what} holds {max(-low, high):.1e}; expected at most {LARGEST:.0e}, of which float32 can "
                "still sum the squares; train or convert it again"
            )


def stored_names(weights: Mapping[str, Weight], formats: Mapping[str, str] | None = None) -> dict[str, str]:
    """The first parameter with the same numbers and the same of `formats`, by parameter: these are stored."""
    first: dict[tuple, str] = {}
    kinds = formats or {}
    return {name: first.setdefault((weight.key, kinds.get(name)), name) for name, weight in weights.items()}


def names(naming: Naming, checkpoint: Checkpoint) -> dict[str, str]:
    """The checkpoint's tensor names by canonical name."""
    result: dict[str, str] = {}
    for name in checkpoint.tensors:
        other = result.setdefault(naming.canonical(name), name)
        if other != name:
            raise CheckpointError(
                f"tensors '{other}' and '{name}' have the same meaning; expected only one of them"
            )
    return result


def resolve(table: Table, shapes: Shapes, checkpoint: Checkpoint) -> dict[str, Weight]:
    """A weight for every parameter in `shapes`.

    Raises one CheckpointError with the first parameters without a tensor, tensors that are neither used nor
    dropped, and shapes that contradict config.json, and how many more there are.
    """
    tensor_names = names(table.naming, checkpoint)
    single = {key: taken(rule) for key, rule in table.rules.items() if _is_name(key)}
    rules = [(_pattern(key), taken(rule)) for key, rule in table.rules.items() if key not in single]
    used: set[str] = set()
    missing, disagreeing, weights = [], [], {}
    for parameter, shape in shapes.items():
        match, take = None, single.get(parameter)
        if take is None:
            patterns = ((m, one) for pattern, one in rules if (m := pattern.fullmatch(parameter)))
            match, take = next(patterns, (None, None))
        if take is None:
            missing.append(f"{parameter}, for which there is no rule")
            continue
        sources = [_fill(name, match) for name in (take.source, *take.also)]
        present = [tensor_names[name] for name in sources if name in tensor_names]
        other = taken(take.fallback)
        spare = tensor_names.get(_fill(other.source, match)) if take.fallback else None
        if spare is not None:
            used.add(spare)
            if not present:
                present = [spare]
                take = take if isinstance(take.fallback, str) else other
        used |= set(present)
        if any(not isinstance(checkpoint.tensors[name], Stored) for name in present):
            take = replace(take, transpose=False)  # packed matrices are always (out,in)
        if not present and take.computed is None:
            missing.append(sources[0])
        expected = take.stored_shape(shape)
        others = [_fill(name, match) for name in take.joined]
        missing += [name for name in others if name not in tensor_names]
        joined = [tensor_names[name] for name in others if name in tensor_names]
        used |= set(joined)
        for name in joined:
            rows = next(iter(checkpoint.tensors[name].shape), 0)
            if checkpoint.tensors[name].shape != (rows, *expected[1:]):
                disagreeing.append(_disagreement(name, (rows, *expected[1:]), checkpoint))
            expected = (max(expected[0] - rows, 0), *expected[1:])
        for name in present:
            if checkpoint.tensors[name].shape != expected:
                disagreeing.append(_disagreement(name, expected, checkpoint))
        norms = tensor_names.get(_fill(take.norms, match), "") if take.norms else ""
        if norms:
            used.add(norms)
            one_each = (*[1] * (len(shape) - 1), shape[-1])
            if checkpoint.tensors[norms].shape != one_each:
                disagreeing.append(_disagreement(norms, one_each, checkpoint))
        elif take.norms:
            missing.append(_fill(take.norms, match))
        if present or take.computed is not None:
            weights[parameter] = Weight(shape, tuple(present), take, parameter, norms, tuple(joined))
    unused = [
        name
        for canonical, name in tensor_names.items()
        if name not in used
        and not any(fnmatch.fnmatchcase(canonical, drop) for drop in table.drop)
        and not _is_filler(name, checkpoint)
    ]
    problems = _first(disagreeing)
    if missing:
        problems.append(f"missing: {', '.join(_first(missing))}")
    if unused:
        problems.append(f"unused: {', '.join(_first(unused))}")
    if problems:
        raise CheckpointError(f"{checkpoint.folder} does not fit its config.json: {'; '.join(problems)}")
    _compare_copies(weights, checkpoint)
    return weights


def _first(problems: list[str]) -> list[str]:
    """The first few, each once, and the number of the others."""
    problems = list(dict.fromkeys(problems))
    left = len(problems) - LISTED
    return problems if left <= 0 else [*problems[:LISTED], f"and {left} more"]


def _is_name(key: str) -> bool:
    """Tell whether a rule is that of one parameter; a mixture of experts may have thousands."""
    return "{i}" not in key and "*" not in key


def _pattern(key: str) -> re.Pattern:
    return re.compile(re.escape(key).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\*", r"(?P<leaf>\w+)"))


def _fill(source: str, match: re.Match | None) -> str:
    groups = {} if match is None else match.groupdict()
    return source.replace("{i}", groups.get("i", "")).replace("*", groups.get("leaf", ""))


def _is_filler(name: str, checkpoint: Checkpoint) -> bool:
    """Tell whether a tensor is the bias of zeros that older GPTQ writers added to every matrix."""
    module, _, leaf = name.rpartition(".")
    packed = isinstance(checkpoint.tensors.get(f"{module}.weight"), Matrix)
    return packed and leaf == "bias" and not checkpoint.read(name).any()


def _disagreement(name: str, expected: tuple[int, ...], checkpoint: Checkpoint) -> str:
    shape = checkpoint.tensors[name].shape
    wrong = set(expected) - set(shape) or set(expected)
    config = checkpoint.config
    sizes = [f"{key}={value}" for key, value in config.items() if type(value) is int and value in wrong]
    labels = config.get("id2label")
    count = len(labels) if isinstance(labels, dict) else 2
    scores = any(part in name for part in ("classif", "score")) and "num_labels" not in config
    if scores and expected[0] == count and expected[1:] == shape[1:]:
        sizes = [f"id2label of {count}" if isinstance(labels, dict) else "no id2label, so 2 labels"]
    because = f" (config.json says {', '.join(sizes)})" if sizes else ""
    return f"tensor '{name}' is {shape}, expected {expected}{because}"


def _compare_copies(weights: Mapping[str, Weight], checkpoint: Checkpoint) -> None:
    """Check that the checkpoint's copies of tensors that config.json ties are equal."""
    for weight in weights.values():
        for other in weight.tensors[1:]:
            first = weight.tensors[0]
            pairs = zip(checkpoint.rows(first), checkpoint.rows(other), strict=True)
            if not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs):  # NaN is reported by `rows`
                raise CheckpointError(
                    f"config.json ties '{other}' to '{first}', but their numbers differ; "
                    'if they are meant to, set "tie_word_embeddings": false'
                )
