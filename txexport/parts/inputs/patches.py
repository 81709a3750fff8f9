"""Images in square patches (Dosovitskiy et al. 2021, 3.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise, signal_cases
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import PatchSpec, SignalStackSpec
from txexport.spec.shapes import Shapes, norm, under


class Patches:
    """Pixels (B,channels,height,width)."""

    spec = PatchSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = tuple(
        f"{part}.weight" for part in ("tokens.0", "tokens.1", "registers", "detection", "position")
    )

    def ports(self, stack: SignalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values, of any height and width if positions are interpolated."""
        embedding = stack.embedding
        assert isinstance(embedding, PatchSpec)
        size = (names.HEIGHT, names.WIDTH) if embedding.any_size else embedding.image_size
        return (floats(names.PIXEL_VALUES, rows[0], embedding.channels, *size),)

    def length(self, embedding: PatchSpec, tokens: int | str) -> int | str:
        """One vector for each patch, learned token, register and detection token."""
        return names.SEQUENCE_LENGTH if embedding.any_size else embedding.length

    def vectors(self, embedding: PatchSpec, tokens: int) -> int:
        """Those of an image of `image_size`."""
        return embedding.length

    def facts(self, embedding: PatchSpec) -> GraphFacts:
        """The number of learned tokens and registers before the patches."""
        return GraphFacts(prefix_tokens=embedding.tokens + embedding.registers)

    def parameters(self, embedding: PatchSpec) -> Shapes:
        """The learned tokens, the table of positions, the projection of patches, and the norm."""
        width, size = embedding.hidden_size, embedding.patch_size
        shapes: Shapes = {f"tokens.{token}.weight": (1, width) for token in range(embedding.tokens)}
        if embedding.registers:
            shapes["registers.weight"] = (embedding.registers, width)
        if embedding.detection_tokens:
            shapes["detection.weight"] = (embedding.detection_tokens, width)
        if embedding.positioned:
            shapes["position.weight"] = (embedding.positions, width)
        shapes["project.weight"] = (width, embedding.channels, size, size)
        if embedding.bias:
            shapes["project.bias"] = (width,)
        return shapes | (under("norm", norm(embedding.norm)) if embedding.norm is not None else {})

    def fixed(self, embedding: PatchSpec) -> tuple[str, ...]:
        """None: positions are learned."""
        return ()

    def operations(self, embedding: PatchSpec) -> int:
        """The projection of every patch of an image of `image_size`."""
        pixels = embedding.channels * embedding.patch_size**2
        return 2 * embedding.patches * embedding.hidden_size * pixels

    def summary(self, stack: SignalStackSpec) -> list[str]:
        """Size of the image and its patches, registers, positions."""
        patches = stack.patches
        assert patches is not None
        height, width = patches.image_size
        size = f"{height} x {width} pixels in squares of {patches.patch_size}"
        learned = {"registers": patches.registers, "detection tokens": patches.detection_tokens}
        registers = [f"{count} {name}" for name, count in learned.items() if count]
        if not patches.positioned:
            return [size, *registers, "2-D RoPE, any size"]
        fitted = ", interpolated for other sizes" * patches.any_size
        return [size, *registers, f"{patches.positions:,} learned positions{fitted}"]

    def rows(self, stack: SignalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: SignalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of images, one of them black; two oblong sizes too if any size is read."""
        embedding = stack.patches
        assert embedding is not None
        side, (height, width) = embedding.patch_size, embedding.image_size
        sizes = [
            ("two of 3 by 2 patches", (2, embedding.channels, 3 * side + 1, 2 * side)),
            ("one higher and wider", (1, embedding.channels, height + side, width + 2 * side)),
        ]
        return signal_cases(stack, sizes if embedding.any_size else ())


INPUT = Patches()
