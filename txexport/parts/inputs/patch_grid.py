"""Images of any size as grids of patches (Liu et al. 2021, 3.1)."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise, signal_cases
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import BlockSpec, PatchGridSpec, ReducedAttentionSpec, StagedStackSpec, WindowAttentionSpec
from txexport.spec.shapes import Shapes, norm, under


class PatchGrid:
    """Pixels (B,channels,height,width) of any height and width."""

    spec = PatchGridSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ("position.weight", "position.background.weight", "position.window.weight")

    def ports(self, stack: StagedStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values."""
        embedding = _patches(stack)
        sides = embedding.image_size if embedding.fixed else (names.HEIGHT, names.WIDTH)
        return (floats(names.PIXEL_VALUES, rows[0], embedding.channels, *sides),)

    def length(self, embedding: PatchGridSpec, tokens: int | str) -> int | str:
        """One vector for each patch, or in the last stage for each square of patches."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: PatchGridSpec, tokens: int) -> int:
        """The patches of an image of `image_size`."""
        return embedding.length

    def facts(self, embedding: PatchGridSpec) -> GraphFacts:
        """None: no tokens precede the patches."""
        return GraphFacts()

    def parameters(self, embedding: PatchGridSpec) -> Shapes:
        """The projection of patches, the norm, and the table of positions."""
        width, size = embedding.hidden_size, embedding.side
        shapes: Shapes = {
            "project.weight": (width, embedding.channels, size, size),
            "project.bias": (width,),
        }
        if embedding.norm is not None:
            shapes |= under("norm", norm(embedding.norm))
        if not embedding.positioned:
            return shapes
        if (positions := embedding.windowed) is not None:
            shapes["position.background.weight"] = (width, positions.rows, positions.columns)
            return shapes | {"position.window.weight": (width, positions.window, positions.window)}
        every = embedding.grid if embedding.fixed else (embedding.positions,)
        return shapes | {"position.weight": (*every, width)}

    def fixed(self, embedding: PatchGridSpec) -> tuple[str, ...]:
        """None: positions are learned."""
        return ()

    def operations(self, embedding: PatchGridSpec) -> int:
        """The projection of every patch of an image of `image_size`."""
        pixels = embedding.channels * embedding.side**2
        return 2 * embedding.length * embedding.hidden_size * pixels

    def summary(self, stack: StagedStackSpec) -> list[str]:
        """Size of images in training and of patches, positions."""
        embedding = _patches(stack)
        height, width = embedding.image_size
        overlap = "" if embedding.kernel is None else f" that overlap to {embedding.kernel}"
        other, resized = ("", "") if embedding.fixed else (", any size", ", interpolated for other sizes")
        size = f"{height} x {width} pixels in squares of {embedding.patch_size}{overlap}{other}"
        learned = f"{embedding.positions:,} learned positions{resized}"
        if (table := embedding.windowed) is not None:
            learned = (
                f"{table.rows} x {table.columns} learned positions, interpolated, and those of a window of "
                f"{table.window} x {table.window}"
            )
        return [size, learned] if embedding.positioned else [size]

    def rows(self, stack: StagedStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: StagedStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of images, one of them black, and of four other sizes.

        The least grid of every stage is one window, or gives one key. Others are oblong, of parts of patches,
        odd before a merging, and of several windows in the last stage, so that its layers are shifted.
        """
        embedding, side = _patches(stack), stack.embedding.patch_size
        window = max(least_grid(block) for block in stack.stages[-1].blocks)
        double = math.prod(stage.merging.stride for stage in stack.stages if stage.merging is not None)
        least = least_edge(stack)
        part = 0 if embedding.positioned else side - 1
        sizes = [
            ("two of the least size", (2, least - part, least - part)),
            ("wide, odd grids", (1, least + 2 * side - part, least + (double * window + 1) * side)),
            ("high, parts of patches", (1, least + (double * window + 3) * side - part, least)),
            ("two larger, shifted in every stage", (2, *[(2 * window * double - 1) * side - part] * 2)),
        ]
        named = [
            (
                name,
                (
                    rows,
                    embedding.channels,
                    *(-(-edge // embedding.multiple) * embedding.multiple for edge in sides),
                ),
            )
            for name, (rows, *sides) in sizes
        ]
        return signal_cases(stack, named)


def _patches(stack: StagedStackSpec) -> PatchGridSpec:
    assert isinstance(stack.embedding, PatchGridSpec)
    return stack.embedding


def least_grid(block: BlockSpec) -> int:
    """The rows that a layer needs: a window of them, or those of a key."""
    kind = block.attention
    if isinstance(kind, ReducedAttentionSpec):
        return kind.reduction
    return kind.window if isinstance(kind, WindowAttentionSpec) else 1


def least_edge(stack: StagedStackSpec) -> int:
    """The least edge of an image in whole patches, in pixels, whose grid no stage finds too small."""
    least, stride = 1, 1
    for stage in stack.stages:
        needed = max(least_grid(block) for block in stage.blocks)
        least = max(least, (needed - 1) * stride + 1)
        stride *= 1 if stage.merging is None else stage.merging.stride
    return least * stack.embedding.patch_size


INPUT = PatchGrid()
