"""Images as maps of convolutions in residual stages (He et al. 2016, 4.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats, ints
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import AnchorStackSpec, ConditionalStackSpec, QueryStackSpec, ResNetSpec
from txexport.spec.resnet import REDUCTION
from txexport.spec.shapes import Shapes, convolution_norm, under

MOST = 9  # the largest batch
Reader = QueryStackSpec | ConditionalStackSpec | AnchorStackSpec


class ResNet:
    """Pixels (B,channels,height,width) of any height and width, and a mask of those that are no padding."""

    spec = ResNetSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ()

    def ports(self, stack: Reader, rows: Shape) -> tuple[Port, ...]:
        """pixel_values and pixel_mask, which need not have the same height and width."""
        return masked_ports(stack.embedding.channels, rows)

    def length(self, embedding: ResNetSpec, tokens: int | str) -> int | str:
        """One vector for each query."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: ResNetSpec, tokens: int) -> int:
        """The places of the map of an image of `image_size`."""
        return embedding.length

    def facts(self, embedding: ResNetSpec) -> GraphFacts:
        """None."""
        return GraphFacts()

    def parameters(self, embedding: ResNetSpec) -> Shapes:
        """The stem, the layers of all stages, and the projection."""
        shapes = under("stem", convolution_norm(embedding.channels, embedding.stem, 7))
        for number, (inputs, outputs, stride) in enumerate(layers(embedding)):
            projected = inputs != outputs or stride != 1
            shapes |= under(
                f"layers.{number}", residual_layer(embedding.bottleneck, inputs, outputs, projected)
            )
        last = embedding.sizes[-1]
        shapes["project.weight"] = (embedding.hidden_size, last, 1, 1)
        return shapes | {"project.bias": (embedding.hidden_size,)}

    def fixed(self, embedding: ResNetSpec) -> tuple[str, ...]:
        """None."""
        return ()

    def operations(self, embedding: ResNetSpec) -> int:
        """The convolutions of an image of `image_size`."""
        sides = [-(-side // 2) for side in embedding.image_size]
        products = sides[0] * sides[1] * embedding.channels * embedding.stem * 49
        sides = [-(-side // 2) for side in sides]
        for inputs, outputs, stride in layers(embedding):
            before, inner = sides[0] * sides[1], outputs // REDUCTION
            sides = [-(-side // stride) for side in sides]
            after = sides[0] * sides[1]
            if embedding.bottleneck:
                products += before * inputs * inner + after * (9 * inner**2 + inner * outputs)
            else:
                products += after * 9 * (inputs + outputs) * outputs
            products += after * inputs * outputs if inputs != outputs or stride != 1 else 0
        return 2 * (products + embedding.length * embedding.sizes[-1] * embedding.hidden_size)

    def summary(self, stack: Reader) -> list[str]:
        """The stages, and the pixels of a place."""
        return self.described(stack.embedding)

    def described(self, embedding: ResNetSpec) -> list[str]:
        """As `summary`."""
        kind = "bottleneck" if embedding.bottleneck else "basic"
        depths = " / ".join(map(str, embedding.depths))
        sizes = " / ".join(f"{size:,}" for size in embedding.sizes)
        return [
            f"residual network of {depths} {kind} layers of {sizes} channels",
            f"a place for {embedding.stride} x {embedding.stride} pixels, any size",
        ]

    def rows(
        self,
        stack: Reader,
        random: np.random.Generator,
        lengths: Sequence[int],
    ) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: Reader, vectors: int) -> Iterator[SignalCase]:
        """Batches of images of several sizes, with padding at the bottom and on the right, and without."""
        return masked_cases(stack.embedding.channels, stack.embedding.stride)


def masked_ports(channels: int, rows: Shape) -> tuple[Port, ...]:
    """pixel_values and pixel_mask, which need not have the same height and width."""
    return (
        floats(names.PIXEL_VALUES, rows[0], channels, names.HEIGHT, names.WIDTH),
        ints(names.PIXEL_MASK, rows[0], names.MASK_HEIGHT, names.MASK_WIDTH),
    )


def masked_cases(channels: int, stride: int) -> Iterator[SignalCase]:
    """Batches of images of several sizes, with padding at the bottom and on the right, and without."""
    random = np.random.default_rng(0)

    def case(name: str, rows: int, height: int, width: int, *real: tuple[int, int]) -> SignalCase:
        pixels = random.standard_normal((rows, channels, height, width), np.float32)
        mask = np.ones((rows, height, width), np.int64)
        for row, (high, wide) in enumerate(real):
            mask[row, high:], mask[row, :, wide:] = 0, 0
        return SignalCase(name, pixels * mask[:, None].astype(np.float32), mask)

    yield case("one", 1, 2 * stride, 3 * stride)
    yield case("one of odd sides", 1, 2 * stride + 1, stride + 7)
    ragged = [(3 * stride, 2 * stride), (2 * stride - 3, 4 * stride), (stride + 1, stride + 9)]
    yield case("three of several sizes", 3, 3 * stride, 4 * stride, *ragged)
    small = case("two, with a mask of another size", 2, 3 * stride, 5 * stride)
    yield SignalCase(small.name, small.signals, np.ones((2, 64, 64), np.int64))
    sides = [(stride * (1 + row % 3), stride * (1 + row % 2)) for row in range(MOST)]
    yield case("nine of several sizes", MOST, 3 * stride, 2 * stride, *sides)


def layers(embedding: ResNetSpec) -> list[tuple[int, int, int]]:
    """Channels in and out, and the stride, of every layer."""
    result, inputs = [], embedding.stem
    for stage, (depth, size) in enumerate(zip(embedding.depths, embedding.sizes, strict=True)):
        for layer in range(depth):
            result.append((inputs, size, 2 if stage and not layer else 1))
            inputs = size
    return result


def residual_layer(bottleneck: bool, inputs: int, outputs: int, projected: bool) -> Shapes:
    """The convolutions of a layer, and that of its residual."""
    inner = outputs // REDUCTION
    parts = [(inputs, outputs, 3), (outputs, outputs, 3)]
    if bottleneck:
        parts = [(inputs, inner, 1), (inner, inner, 3), (inner, outputs, 1)]
    shapes: Shapes = {}
    for part, sizes in enumerate(parts):
        shapes |= under(f"parts.{part}", convolution_norm(*sizes))
    return shapes | (under("shortcut", convolution_norm(inputs, outputs, 1)) if projected else {})


INPUT = ResNet()
