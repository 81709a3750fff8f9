"""Images as maps of depthwise convolutions and networks, in stages (Liu et al. 2022, 2)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import LARGEST, noise
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import ConvNextSpec, MapStackSpec
from txexport.spec.convnext import KERNEL, MERGED, WIDENING
from txexport.spec.shapes import Shapes, convolution, linear, norm, under


class ConvNext:
    """Pixels (B,channels,height,width) of any height and width from one place of the last map on."""

    spec = ConvNextSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ()

    def ports(self, stack: MapStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values."""
        channels = stack.embedding.channels
        return (floats(names.PIXEL_VALUES, rows[0], channels, names.HEIGHT, names.WIDTH),)

    def length(self, embedding: ConvNextSpec, tokens: int | str) -> int | str:
        """One vector for each place of the last map."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: ConvNextSpec, tokens: int) -> int:
        """The places of the last map of an image of `image_size`."""
        return embedding.length

    def facts(self, embedding: ConvNextSpec) -> GraphFacts:
        """None."""
        return GraphFacts()

    def parameters(self, embedding: ConvNextSpec) -> Shapes:
        """The projection of patches and its norm, the mergings, and the layers of all stages."""
        sizes = embedding.sizes
        shapes = under("project", convolution(embedding.channels, sizes[0], embedding.patch_size))
        shapes |= under("norm", norm(embedding.norm(sizes[0])))
        for number, (inputs, outputs) in enumerate(pairwise(sizes)):
            shapes |= under(f"mergings.{number}.norm", norm(embedding.norm(inputs)))
            shapes |= under(f"mergings.{number}.project", convolution(inputs, outputs, MERGED))
        for number, size in enumerate(sizes if embedding.map_norms else ()):
            shapes |= under(f"map_norms.{number}", norm(embedding.norm(size)))
        for number, size in enumerate(layers(embedding)):
            shapes |= under(f"layers.{number}", _layer(embedding, size))
        return shapes

    def fixed(self, embedding: ConvNextSpec) -> tuple[str, ...]:
        """None."""
        return ()

    def operations(self, embedding: ConvNextSpec) -> int:
        """The convolutions and networks for an image of `image_size`."""
        counts = [rows * columns for rows, columns in embedding.grids]
        products = counts[0] * embedding.sizes[0] * embedding.channels * embedding.patch_size**2
        for before, size, count in zip(embedding.sizes, embedding.sizes[1:], counts[1:], strict=False):
            products += count * before * size * MERGED**2
        for depth, size, count in zip(embedding.depths, embedding.sizes, counts, strict=True):
            products += depth * count * size * (KERNEL**2 + 2 * WIDENING * size)
        return 2 * products

    def summary(self, stack: MapStackSpec) -> list[str]:
        """The stages, and the pixels of a place."""
        embedding = stack.embedding
        depths = " / ".join(map(str, embedding.depths))
        sizes = " / ".join(f"{size:,}" for size in embedding.sizes)
        return [
            f"ConvNeXt of {depths} layers of {sizes} channels",
            f"a place for {embedding.stride} x {embedding.stride} pixels, any size",
        ]

    def rows(self, stack: MapStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: MapStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of images of several sizes, of which whole places are read."""
        random, stride = np.random.default_rng(0), stack.embedding.stride
        for name, rows, height, width in (
            ("one", 1, 2 * stride, 3 * stride),
            ("two of one place", 2, stride, stride),
            ("one of odd sides", 1, 2 * stride + 1, stride + 7),
            ("three", 3, 2 * stride - 3, 5 * stride - 1),
            ("nine", LARGEST, 3 * stride, 2 * stride),
        ):
            shape = rows, stack.embedding.channels, height, width
            yield SignalCase(name, random.standard_normal(shape, np.float32))


def layers(embedding: ConvNextSpec) -> list[int]:
    """The channels of every layer."""
    pairs = zip(embedding.depths, embedding.sizes, strict=True)
    return [size for depth, size in pairs for _ in range(depth)]


def _layer(embedding: ConvNextSpec, size: int) -> Shapes:
    """The convolution, the norm and the network of a layer of `size` channels."""
    inner = WIDENING * size
    shapes: Shapes = {"convolution.weight": (size, 1, KERNEL, KERNEL), "convolution.bias": (size,)}
    shapes |= under("norm", norm(embedding.norm(size)))
    shapes |= under("up", linear(size, inner, True)) | under("down", linear(inner, size, True))
    if embedding.responses:
        shapes |= dict.fromkeys(("responses.weight", "responses.bias"), (1, 1, inner))
    return shapes | ({"scale": (size,)} if embedding.scaled else {})


INPUT = ConvNext()
