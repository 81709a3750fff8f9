"""Images with a mask, as maps of a ViT whose layers attend within windows (Li et al. 2022, 3)."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import LARGEST, noise
from txexport.parts.inputs.patches import INPUT as PATCHES
from txexport.parts.inputs.resnet import masked_ports
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.parts.query_layers import repeated
from txexport.spec import AttentionSpec, MixedStackSpec, NormSpec, ProjectorSpec, WindowedMapsSpec
from txexport.spec.parameters import block
from txexport.spec.shapes import Shapes, norm, under
from txexport.spec.windowed_maps import NARROWED


class WindowedMaps:
    """Pixels (B,channels,height,width), and a mask of those that are no padding.

    The number of windows divides the patches of a row, and of a column.
    """

    spec = WindowedMapsSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ("patches.tokens.0.weight", "patches.position.weight")

    def ports(self, stack: MixedStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values and pixel_mask, which need not have the same height and width."""
        return masked_ports(stack.embedding.channels, rows)

    def length(self, embedding: WindowedMapsSpec, tokens: int | str) -> int | str:
        """One vector for each query."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: WindowedMapsSpec, tokens: int) -> int:
        """The places of all levels of an image of `image_size`."""
        return embedding.length

    def facts(self, embedding: WindowedMapsSpec) -> GraphFacts:
        """Windows have whole patches; pixels beyond the last patch are not read."""
        return GraphFacts(image_stride=embedding.stride, image_rest=embedding.patches.patch_size - 1)

    def parameters(self, embedding: WindowedMapsSpec) -> Shapes:
        """Patches, layers, the norm of what is read, and what makes the levels."""
        shapes = under("patches", PATCHES.parameters(embedding.patches))
        shapes |= under("layers", repeated(embedding.num_layers, block(embedding.block)))
        if embedding.norm is not None:
            shapes |= under("norm", norm(embedding.norm))
        maps, size = len(embedding.read), embedding.patches.hidden_size
        for level, scale in enumerate(embedding.projector.scales):
            shapes |= under(f"levels.{level}", _level(embedding.projector, maps, size, scale))
        return shapes

    def fixed(self, embedding: WindowedMapsSpec) -> tuple[str, ...]:
        """None."""
        return ()

    def operations(self, embedding: WindowedMapsSpec) -> int:
        """The matrices of patches, layers and levels of an image of `image_size`."""
        patches, every, attention = embedding.patches, embedding.side**2, embedding.block.attention
        assert isinstance(attention, AttentionSpec)
        (rows, columns), pixels = embedding.grid, embedding.channels * patches.patch_size**2
        vectors = embedding.vectors
        weights = sum(math.prod(shape) for shape in block(embedding.block).values() if len(shape) == 2)
        products = rows * columns * patches.hidden_size * pixels
        for layer in range(embedding.num_layers):
            keys = vectors if layer in embedding.everywhere else vectors // every
            products += vectors * (weights + 2 * keys * attention.num_heads * attention.head_dim)
        maps, projector = len(embedding.read), embedding.projector
        for (high, wide), scale in zip(embedding.grids, projector.scales, strict=True):
            for name, shape in _level(projector, maps, patches.hidden_size, scale).items():
                area = rows * columns if "narrow" in name or "finer" in name else high * wide
                products += area * math.prod(shape) if len(shape) == 4 else 0
        return 2 * products

    def summary(self, stack: MixedStackSpec) -> list[str]:
        """The layers and their windows, the patches, and the pixels of a place of each level."""
        embedding = stack.embedding
        patches, layers = embedding.patches, embedding.num_layers
        sides = [f"{patches.patch_size / scale:g}" for scale in embedding.projector.scales]
        within = layers - len(embedding.everywhere)
        return [
            f"{layers} layers of width {patches.hidden_size:,}",
            f"{within} of them in {embedding.side} x {embedding.side} windows",
            f"maps of layers {' / '.join(map(str, embedding.read))}",
            f"a place for {' / '.join(f'{side} x {side}' for side in sides)} pixels, multiples of "
            f"{embedding.stride}",
            f"{patches.positions:,} learned positions, interpolated for other sizes",
        ]

    def rows(self, stack: MixedStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: MixedStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of images of several sizes, with padding at the bottom and on the right, and without."""
        embedding, random = stack.embedding, np.random.default_rng(0)
        (height, width), stride = embedding.image_size, embedding.stride
        rest = embedding.patches.patch_size - 1

        def case(name: str, rows: int, height: int, width: int, *real: tuple[int, int]) -> SignalCase:
            pixels = random.standard_normal((rows, embedding.channels, height, width), np.float32)
            mask = np.ones((rows, height, width), np.int64)
            for row, (high, wide) in enumerate(real):
                mask[row, high:], mask[row, :, wide:] = 0, 0
            return SignalCase(name, pixels * mask[:, None].astype(np.float32), mask)

        yield case("one", 1, height, width)
        yield case("one with pixels beyond the last patch", 1, height + rest, width + stride + 1)
        ragged = [(height + stride, width), (height, width + 2 * stride), (height - 1, width - 2)]
        yield case("three of several sizes", 3, height + stride, width + 2 * stride, *ragged)
        small = case("two, with a mask of another size", 2, height, width + 2 * stride)
        yield SignalCase(small.name, small.signals, np.ones((2, 64, 64), np.int64))
        sides = [(height - row, width - row % 3) for row in range(LARGEST)]
        yield case("nine of several sizes", LARGEST, height, width, *sides)


def _level(spec: ProjectorSpec, maps: int, size: int, scale: float) -> Shapes:
    """The convolutions of a level."""
    shapes, inner = Shapes(), spec.inner
    resized, half = spec.resized(size, scale), size // 2 if size > NARROWED else size
    for number in range(maps):
        place = f"resize.{number}"
        if scale == 0.5:
            shapes |= under(f"{place}.coarser", _convolution(spec, size, size, 3))
        if scale == 2.0:
            if half != size:
                shapes |= under(f"{place}.narrow", _convolution(spec, size, half, 1))
            shapes |= {f"{place}.finer.weight": (half, resized, 2, 2), f"{place}.finer.bias": (resized,)}
    shapes |= under("first", _convolution(spec, maps * resized, 2 * inner, 1))
    for pair in range(spec.blocks):
        for number in range(2):
            shapes |= under(f"pairs.{pair}.{number}", _convolution(spec, inner, inner, 3))
    shapes |= under("last", _convolution(spec, (2 + spec.blocks) * inner, spec.size, 1))
    return shapes | under("norm", norm(spec.norm))


def _convolution(spec: ProjectorSpec, inputs: int, outputs: int, kernel: int) -> Shapes:
    """A convolution and its norm."""
    kind = spec.norm_of(outputs)
    names = ("weight", "bias") if isinstance(kind, NormSpec) else ("weight", "bias", "mean", "variance")
    shapes: Shapes = {"convolution.weight": (outputs, inputs, kernel, kernel)}
    return shapes | {f"norm.{name}": (outputs,) for name in names}


INPUT = WindowedMaps()
