"""Patches of all tiles of an image (Meta 2024, Llama 3.2)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import TiledStackSpec, TilesSpec
from txexport.spec.shapes import Shapes, norm, under


class Tiles:
    """Tiles (I,T,channels,side,side), the images' aspect ratios (I), and a mask of tiles (I,T)."""

    spec = TilesSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = (
        "token.weight",
        "position.weight",
        "position_gate.weight",
        "tile_position.weight",
        "before.weight",
        "before.gate.weight",
    )

    def ports(self, stack: TiledStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values, aspect_ratio_ids and aspect_ratio_mask."""
        embedding = stack.embedding
        return (
            floats(names.PIXEL_VALUES, rows[0], *embedding.shape),
            ints(names.ASPECT_RATIO_IDS, rows[0]),
            ints(names.ASPECT_RATIO_MASK, rows[0], embedding.tiles),
        )

    def length(self, embedding: TilesSpec, tokens: int | str) -> int | str:
        """Those of all tiles."""
        return embedding.length

    def vectors(self, embedding: TilesSpec, tokens: int) -> int:
        """Those of all tiles, with padding, which layers read."""
        return embedding.tiles * embedding.padded

    def facts(self, embedding: TilesSpec) -> GraphFacts:
        """None."""
        return GraphFacts()

    def parameters(self, embedding: TilesSpec) -> Shapes:
        """The projection of patches, the class's vector, positions, vectors of tiles, gates and the norm."""
        width, side, ratios = embedding.hidden_size, embedding.patch_size, embedding.ratios + 1
        return {
            "project.weight": (width, embedding.channels, side, side),
            **tile_vectors("before", embedding),
            "token.weight": (1, width),
            "position.weight": (embedding.vectors_of_tile, width),
            "position_gate.weight": (1,),
            "tile_position.weight": (ratios, embedding.length * width),
            **under("norm", norm(embedding.norm)),
        }

    def fixed(self, embedding: TilesSpec) -> tuple[str, ...]:
        """None: positions are learned."""
        return ()

    def operations(self, embedding: TilesSpec) -> int:
        """The projection of every patch."""
        pixels = embedding.channels * embedding.patch_size**2
        patches = embedding.tiles * (embedding.vectors_of_tile - 1)
        return 2 * patches * embedding.hidden_size * pixels

    def summary(self, stack: TiledStackSpec) -> list[str]:
        """The tiles of an image, their size and their patches."""
        embedding, side = stack.embedding, stack.embedding.image_size
        tiles = (
            f"up to {embedding.tiles} tiles of {side} x {side} pixels in squares of {embedding.patch_size}"
        )
        return [tiles, f"{embedding.length:,} learned positions of {embedding.ratios} aspect ratios"]

    def rows(self, stack: TiledStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """The tiles of an image for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: TiledStackSpec, vectors: int) -> Iterator[SignalCase]:
        """None: no encoder alone reads them."""
        return iter(())


def tile_vectors(name: str, embedding: TilesSpec) -> Shapes:
    """The vectors of tiles of each aspect ratio, and of padding, and their gate."""
    table = (embedding.ratios + 1, embedding.tiles * embedding.hidden_size)
    return {f"{name}.weight": table, f"{name}.gate.weight": (1,)}


INPUT = Tiles()
