"""Images as the maps of several stages of a residual network (He et al. 2019, 4.1)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import LARGEST, noise
from txexport.parts.inputs.resnet import convolution_norm, residual_layer
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import ProposalStackSpec, ResNetLevelsSpec
from txexport.spec.resnet import REDUCTION
from txexport.spec.shapes import Shapes, under


class ResNetLevels:
    """Pixels (B,channels,height,width), of a height and a width that the stride of the last map divides."""

    spec = ResNetLevelsSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ()

    def ports(self, stack: ProposalStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values."""
        return level_ports(stack.embedding.channels, rows)

    def length(self, embedding: ResNetLevelsSpec, tokens: int | str) -> int | str:
        """One vector for each query."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: ResNetLevelsSpec, tokens: int) -> int:
        """The places of all levels of an image of `image_size`."""
        return embedding.length

    def facts(self, embedding: ResNetLevelsSpec) -> GraphFacts:
        """Maps of neighbouring levels fit one another."""
        return GraphFacts(image_stride=embedding.stride)

    def parameters(self, embedding: ResNetLevelsSpec) -> Shapes:
        """The stem, the layers of all stages, and the projections of the levels."""
        half, shapes = embedding.stem // 2, Shapes()
        for number, (inputs, outputs) in enumerate(
            ((embedding.channels, half), (half, half), (half, embedding.stem))
        ):
            shapes |= under(f"stem.{number}", convolution_norm(inputs, outputs, 3))
        for number, layer in enumerate(layers(embedding)):
            inputs, outputs, _, projected, _ = layer.sizes
            shapes |= under(
                f"layers.{number}", residual_layer(embedding.bottleneck, inputs, outputs, projected)
            )
        for level, size in enumerate(embedding.sizes[-embedding.levels :]):
            shapes |= under(f"project.{level}", convolution_norm(size, embedding.hidden_size, 1))
        return shapes

    def fixed(self, embedding: ResNetLevelsSpec) -> tuple[str, ...]:
        """None."""
        return ()

    def operations(self, embedding: ResNetLevelsSpec) -> int:
        """The convolutions of an image of `image_size`."""
        height, width = embedding.image_size
        half, cells = embedding.stem // 2, height // 2 * (width // 2)
        products = cells * 9 * half * (embedding.channels + half + embedding.stem)
        cells //= 4
        for layer in layers(embedding):
            inputs, outputs, stride, projected, _ = layer.sizes
            before, inner = cells, outputs // REDUCTION
            cells //= stride**2
            if embedding.bottleneck:
                products += before * inputs * inner + cells * (9 * inner**2 + inner * outputs)
            else:
                products += cells * 9 * (inputs + outputs) * outputs
            products += cells * inputs * outputs * projected
            products += cells * outputs * embedding.hidden_size * (layer.level is not None)
        return 2 * products

    def summary(self, stack: ProposalStackSpec) -> list[str]:
        """The stages, and the pixels of a place of each level."""
        embedding = stack.embedding
        kind = "bottleneck" if embedding.bottleneck else "basic"
        depths = " / ".join(map(str, embedding.depths))
        sizes = " / ".join(f"{size:,}" for size in embedding.sizes)
        strides = [embedding.image_size[0] // rows for rows, _ in embedding.grids]
        return [
            f"residual network of {depths} {kind} layers of {sizes} channels",
            f"a place for {' / '.join(f'{side} x {side}' for side in strides)} pixels, "
            f"multiples of {embedding.stride}",
        ]

    def rows(self, stack: ProposalStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: ProposalStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of 1, 3 and 9 images, and images of other heights and widths."""
        embedding = stack.embedding
        return level_cases(embedding.channels, embedding.image_size, embedding.stride)


def level_ports(channels: int, rows: Shape) -> tuple[Port, ...]:
    """pixel_values."""
    return (floats(names.PIXEL_VALUES, rows[0], channels, names.HEIGHT, names.WIDTH),)


def level_cases(channels: int, size: tuple[int, int], stride: int) -> Iterator[SignalCase]:
    """Batches of 1, 3 and 9 images of a size, and images of other heights and widths."""
    random, (height, width) = np.random.default_rng(0), size
    sizes = {
        "one": (1, height, width),
        "three": (3, height, width),
        "one upright": (1, height + stride, width),
        "two of another size": (2, height, width + 3 * stride),
        "nine": (LARGEST, height, width),
    }
    for name, (count, *sides) in sizes.items():
        yield SignalCase(name, random.standard_normal((count, channels, *sides), np.float32))


@dataclass(frozen=True)
class Layer:
    """A layer: channels in and out, stride, whether its residual is projected and pooled; and its level.

    The level is that of the map that the layer completes, None where it completes none.
    """

    sizes: tuple[int, int, int, bool, bool]
    level: int | None


def layers(embedding: ResNetLevelsSpec) -> list[Layer]:
    """Every layer of all stages."""
    result, inputs = [], embedding.stem
    unread = len(embedding.depths) - embedding.levels
    for stage, (depth, size) in enumerate(zip(embedding.depths, embedding.sizes, strict=True)):
        for layer in range(depth):
            stride = 2 if stage and not layer else 1
            first = not layer and not embedding.bottleneck
            pooled = stride == 2 and (embedding.bottleneck or inputs != size)
            sizes = inputs, size, stride, inputs != size or stride != 1 or first, pooled
            last = layer == depth - 1 and stage >= unread
            result.append(Layer(sizes, stage - unread if last else None))
            inputs = size
    return result


INPUT = ResNetLevels()
