"""The number format of every parameter of a bundle."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase
from weakref import WeakKeyDictionary

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_resolution import Weight
from txexport.errors import InputError, shown
from txexport.formats import (
    FLOAT32,
    FLOAT32_IN_OUT,
    Dtype,
    NumberFormat,
    StoredIntegers,
    Use,
    stored_integers,
)

HEADS = ("head.weight",)  # projects to scores of the vocabulary, or of labels
# Small, and a rounding error selects another expert, or mixes vectors of a token in other shares.
ROUTERS = (".router.weight", ".router.project.weight", ".streams.predict.weight", ".streams.correct.weight")
Uses = Mapping[str, AbstractSet[Use]]  # patterns of names of parameters


def routes(name: str) -> bool:
    """Tell whether a parameter of that name selects experts."""
    return name.endswith(ROUTERS) and ".streams." not in name


def matching(weights: Mapping[str, Weight], patterns: Iterable[str]) -> set[str]:
    """The parameters that match a pattern, and those with the same numbers.

    Raises InputError for a pattern without a match.
    """
    keys = set()
    for pattern in patterns:
        matched = {weight.key for name, weight in weights.items() if fnmatchcase(name, pattern)}
        if not matched:
            raise InputError(
                f"keep is {shown(pattern)}, which matches no parameter, such as {next(iter(weights))}"
            )
        keys |= matched
    return {name for name, weight in weights.items() if weight.key in keys}


def _uses_of_numbers(weights: Mapping[str, Weight], asked: Iterable[Uses]) -> dict[tuple, set[Use]]:
    """All uses of equal numbers, by their key."""
    uses: dict[tuple, set[Use]] = {weight.key: set() for weight in weights.values()}
    for graph in asked:
        for name, use in graph.items():
            uses[weights[name].key] |= use
    return uses


def formats_of(weights: Mapping[str, Weight], asked: Iterable[Uses], dtype: Dtype) -> dict[str, NumberFormat]:
    """The number format of each parameter, chosen from all uses of its numbers.

    Parameters with equal numbers are stored once, so they have one format.
    """
    uses = _uses_of_numbers(weights, asked)
    heads = {weights[name].key for name in weights if name in HEADS}
    routers = {weights[name].key for name in weights if name.endswith(ROUTERS)}
    return {
        name: FLOAT32_IN_OUT
        if weight.key in routers and dtype.others is FLOAT32
        else dtype.choose(weight.shape, uses[weight.key], weight.key in heads)
        for name, weight in weights.items()
    }


_known: WeakKeyDictionary[Checkpoint, dict[tuple, StoredIntegers | None]] = WeakKeyDictionary()


def checkpoint_integers(
    checkpoint: Checkpoint, weights: Mapping[str, Weight], asked: Iterable[Uses]
) -> dict[str, StoredIntegers]:
    """The formats of a quantised checkpoint's own integers, for matrices that are only multiplied.

    They depend on the integers, which are read once for all plans of a checkpoint.
    """
    uses = _uses_of_numbers(weights, asked)
    known = _known.setdefault(checkpoint, {})
    result: dict[str, StoredIntegers] = {}
    for name, weight in weights.items():
        if uses[weight.key] != {Use.PRODUCT} or len(weight.shape) != 2:
            continue
        if weight.key not in known:
            blocks = weight.blocks(checkpoint)
            own = None if blocks is None else stored_integers(blocks, weight.rounds(checkpoint))
            known[weight.key] = own
        if (found := known[weight.key]) is not None:
            result[name] = found
    return result
