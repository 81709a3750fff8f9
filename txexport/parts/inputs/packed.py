"""Patches of images of any size, of all images in one row (Wang et al. 2024, 2.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import PackedSpec, SignalStackSpec
from txexport.spec.shapes import Shapes, linear, under


class Packed:
    """Patches (N,numbers) of all images, and frames, rows and columns (I,3) of each."""

    spec = PackedSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ("position.weight",)

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values and the grids."""
        assert stack.packed is not None
        return (
            floats(names.PIXEL_VALUES, names.NUM_PATCHES, stack.packed.numbers),
            ints(stack.packed.grids, rows[0], 3),
        )

    def length(self, embedding: PackedSpec, tokens: int | str) -> int | str:
        """One vector for each patch."""
        return names.NUM_PATCHES

    def vectors(self, embedding: PackedSpec, tokens: int) -> int:
        """Those of an image of `length` patches."""
        return embedding.length

    def facts(self, embedding: PackedSpec) -> GraphFacts:
        """The neighbours that become one vector."""
        return GraphFacts(merged_patches=embedding.merged)

    def parameters(self, embedding: PackedSpec) -> Shapes:
        """The projection of patches, and the table of positions."""
        positions: Shapes = {"position.weight": (embedding.side**2, embedding.hidden_size)}
        return (positions if embedding.side else {}) | under(
            "project", linear(embedding.numbers, embedding.hidden_size, embedding.bias)
        )

    def fixed(self, embedding: PackedSpec) -> tuple[str, ...]:
        """None."""
        return ()

    def operations(self, embedding: PackedSpec) -> int:
        """0: the projection counts as a matrix."""
        return 0

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """The size of patches, and positions."""
        assert stack.packed is not None
        side = stack.packed.patch_size
        windows = {block.attention.window for block in stack.blocks} - {None}
        within = [f"attention within {one} x {one} patches in some layers" for one in windows]
        learned = [f"{stack.packed.side**2:,} learned positions"] if stack.packed.side else []
        return [f"images of any size in squares of {side}", "2-D RoPE", *learned, *within]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random patches, one row of them for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """None: no encoder alone reads them."""
        return iter(())


INPUT = Packed()
