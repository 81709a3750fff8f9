"""Patches of an image of any shape, in a row (Lee et al. 2023, 2.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import FlattenedPatchesSpec, SignalStackSpec
from txexport.spec.shapes import Shapes, linear, under

PLACES = ("row", "column")


class FlattenedPatches:
    """Patches (B,S,2+numbers), of any number, each behind its row and column, and their mask."""

    spec = FlattenedPatchesSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = tuple(f"{place}.weight" for place in PLACES)

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """flattened_patches, attention_mask."""
        assert isinstance(stack.embedding, FlattenedPatchesSpec)
        return (
            floats(names.FLATTENED_PATCHES, *rows[:2], 2 + stack.embedding.numbers),
            ints(names.ATTENTION_MASK, *rows[:2]),
        )

    def length(self, embedding: FlattenedPatchesSpec, tokens: int | str) -> int | str:
        """Any number of vectors, by the name of the sequence that the stack's other ports have."""
        return tokens

    def vectors(self, embedding: FlattenedPatchesSpec, tokens: int) -> int:
        """Those of an image of the usual number of patches."""
        return embedding.length

    def facts(self, embedding: FlattenedPatchesSpec) -> GraphFacts:
        """A vector for every patch."""
        return GraphFacts(least_samples=1, vector_stride=1)

    def parameters(self, embedding: FlattenedPatchesSpec) -> Shapes:
        """The projection, and the tables of rows and columns."""
        width = embedding.hidden_size
        tables: Shapes = dict.fromkeys(self.tables, (embedding.positions, width))
        return tables | under("project", linear(embedding.numbers, width, True))

    def fixed(self, embedding: FlattenedPatchesSpec) -> tuple[str, ...]:
        """None: all are learned."""
        return ()

    def operations(self, embedding: FlattenedPatchesSpec) -> int:
        """None but the projection, which is counted as a matrix."""
        return 0

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Numbers of a patch, and positions."""
        embedding = stack.embedding
        assert isinstance(embedding, FlattenedPatchesSpec)
        return [f"patches of {embedding.numbers} numbers in {embedding.positions - 1:,} rows and columns"]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Patches of random numbers at random places, of these numbers."""
        assert isinstance(stack.embedding, FlattenedPatchesSpec)
        numbers, most = stack.embedding.numbers, stack.embedding.positions
        return [
            np.concatenate(
                [
                    random.integers(1, most, (length, len(PLACES))).astype(np.float32),
                    random.standard_normal((length, numbers), np.float32),
                ],
                axis=1,
            )
            for length in lengths
        ]

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """None: no encoder alone reads them."""
        return iter(())


INPUT = FlattenedPatches()
