"""Patches of images of any shape (Tschannen et al. 2025, 2.4.2)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import NaflexSpec, SignalStackSpec
from txexport.spec.shapes import Shapes, linear, under


class Naflex:
    """Patches (B,P,numbers), their mask (B,P), and the rows and columns (B,2) that they have."""

    spec = NaflexSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ("position.weight",)

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values, pixel_attention_mask and spatial_shapes."""
        assert isinstance(stack.embedding, NaflexSpec)
        return (
            floats(names.PIXEL_VALUES, rows[0], names.NUM_PATCHES, stack.embedding.numbers),
            ints(names.PIXEL_ATTENTION_MASK, rows[0], names.NUM_PATCHES),
            ints(names.SPATIAL_SHAPES, rows[0], 2),
        )

    def length(self, embedding: NaflexSpec, tokens: int | str) -> int | str:
        """One vector for each patch."""
        return names.NUM_PATCHES

    def vectors(self, embedding: NaflexSpec, tokens: int) -> int:
        """As many as there are positions."""
        return embedding.length

    def facts(self, embedding: NaflexSpec) -> GraphFacts:
        """None."""
        return GraphFacts()

    def parameters(self, embedding: NaflexSpec) -> Shapes:
        """The table of positions and the projection of patches."""
        shapes: Shapes = {"position.weight": (embedding.length, embedding.hidden_size)}
        return shapes | under("project", linear(embedding.numbers, embedding.hidden_size, True))

    def fixed(self, embedding: NaflexSpec) -> tuple[str, ...]:
        """None: positions are learned."""
        return ()

    def operations(self, embedding: NaflexSpec) -> int:
        """The interpolation of positions: a product of their shares and the table."""
        return 2 * embedding.length**2 * embedding.hidden_size

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """The size of patches, and positions."""
        assert isinstance(stack.embedding, NaflexSpec)
        side, positions = stack.embedding.patch_size, stack.embedding.length
        return [
            f"images of any shape in squares of {side}",
            f"{positions:,} learned positions, interpolated for other shapes",
        ]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random patches, one row of them for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """None: no encoder alone reads them."""
        return iter(())


def beside(embedding: NaflexSpec, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """The mask and the shapes of that number of rows of `length` patches; the first image has fewer."""
    most, side = embedding.length, embedding.side
    shapes = [(max(1, side - 2), side), (side, side), (1, most), (most, 1)]
    while len(shapes) < rows:
        high = int(random.integers(1, most + 1))
        shapes.append((high, int(random.integers(1, most // high + 1))))
    chosen = np.array(shapes[:rows], np.int64)
    mask = np.arange(most) < chosen.prod(axis=1)[:, None]
    return {names.PIXEL_ATTENTION_MASK: mask.astype(np.int64), names.SPATIAL_SHAPES: chosen}


INPUT = Naflex()
