"""Costs at other lengths and in other dtypes than the requested ones."""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from txexport.checkpoints.weight_resolution import Weight
from txexport.formats import DTYPES, FLOAT32_IN_OUT, NumberFormat, Use, nbytes
from txexport.inspection import flops
from txexport.inspection.flops import CacheBytes, Pass
from txexport.parts import input_of
from txexport.parts.inputs import reads_tokens
from txexport.parts.inputs.tokens import BOX_TABLES
from txexport.spec import ModelSpec

LONGEST = 32_768  # tokens, for a model without a limit
# Matrices without a product: relative positions, vectors of tiles, segments, the query of a pool.
OTHER_TABLES = (
    *(".relative.weight", ".after.weight", ".attention.segment.weight", ".probe.weight"),
    *(".layout.position.weight", *(f".layout.boxes.{table}.weight" for table in BOX_TABLES)),
)


@dataclass(frozen=True)
class LengthCosts:
    """As in Inspection, for one row of `length` tokens."""

    length: int
    prefill: dict[str, Pass]
    step: Pass | None
    cache: CacheBytes | None


def by_length(spec: ModelSpec, length: int, number: int = flops.NUMBER) -> list[LengthCosts]:
    """Costs of every power of two up to the longest sequence, of it and of `length`; none for images."""
    texts = [stack for stack in spec.stacks.values() if reads_tokens(stack)]
    if not texts:
        return []
    longest = min((one.limit for one in texts if one.limit is not None), default=max(LONGEST, length))
    powers = [2**power for power in range(longest.bit_length())]
    return [
        LengthCosts(
            size,
            flops.prefill(spec, size),
            flops.step(spec, size),
            flops.cache(spec, size, number=number),
        )
        for size in sorted({*powers, longest, length})
    ]


def by_dtype(spec: ModelSpec, weights: Mapping[str, Weight], files: list[set[str]]) -> dict[str, int]:
    """The bytes of a bundle's weights in each dtype available to any checkpoint.

    `files` are the parameters of each of its files; equal arrays are stored once in each.
    """
    result, tables = {}, _tables(spec)
    for dtype_name, dtype in DTYPES.items():
        if dtype.stored:
            continue
        kinds: dict[tuple, NumberFormat] = {}
        for key, (shape, names) in _alike(weights).items():
            head = any(one == "head.weight" for one in names)
            kinds[key] = dtype.choose(shape, {use for one in names for use in _uses(one, tables)}, head)
            if any(one.endswith(".router.weight") for one in names):
                kinds[key] = FLOAT32_IN_OUT
        unique = [{weights[name].key: weights[name].shape for name in file} for file in files]
        result[dtype_name] = sum(nbytes(kinds[key], shape) for file in unique for key, shape in file.items())
    return result


def _alike(weights: Mapping[str, Weight]) -> dict[tuple, tuple[tuple[int, ...], list[str]]]:
    """Shape and names of equal numbers, by their key."""
    result: dict[tuple, tuple[tuple[int, ...], list[str]]] = {}
    for name, weight in weights.items():
        result.setdefault(weight.key, (weight.shape, []))[1].append(name)
    return result


def _tables(spec: ModelSpec) -> set[str]:
    """Parameters of embeddings that are added to vectors or prepended to them."""
    return {
        f"{name}.embedding.{table}" for name, stack in spec.stacks.items() for table in input_of(stack).tables
    }


def _uses(name: str, tables: Container[str]) -> set[Use]:
    """The ways in which graphs use a parameter."""
    if name in tables or name.endswith(OTHER_TABLES):
        return {Use.WHOLE}
    return {Use.LOOKUP} if name.endswith(".word.weight") else {Use.PRODUCT}
