"""Images as the maps of several stages of an HGNetV2 (Peng et al. 2024, A.1)."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise
from txexport.parts.inputs.resnet import convolution_norm
from txexport.parts.inputs.resnet_levels import level_cases, level_ports
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import DistributionStackSpec, HGNetLevelsSpec, HGNetStageSpec
from txexport.spec.shapes import Shapes, under


class HGNetLevels:
    """Pixels (B,channels,height,width), of a height and a width that the stride of the last map divides."""

    spec = HGNetLevelsSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ()

    def ports(self, stack: DistributionStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values."""
        return level_ports(stack.embedding.channels, rows)

    def length(self, embedding: HGNetLevelsSpec, tokens: int | str) -> int | str:
        """One vector for each query."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: HGNetLevelsSpec, tokens: int) -> int:
        """The places of all levels of an image of `image_size`."""
        return embedding.length

    def facts(self, embedding: HGNetLevelsSpec) -> GraphFacts:
        """Maps of neighbouring levels fit one another."""
        return GraphFacts(image_stride=embedding.stride)

    def parameters(self, embedding: HGNetLevelsSpec) -> Shapes:
        """The stem, the blocks of all stages, and the projections of the levels."""
        inner, affine, shapes, number = embedding.stem, embedding.affine, Shapes(), 0
        for name, inputs, outputs, kernel in (
            ("first", embedding.channels, inner, 3),
            ("narrow", inner, inner // 2, 2),
            ("wide", inner // 2, inner, 2),
            ("joined", 2 * inner, inner, 3),
            ("last", inner, embedding.stem_size, 1),
        ):
            shapes |= under(f"stem.{name}", _relu_convolution(affine, inputs, outputs, kernel))
        for part, (inputs, stage) in enumerate(stages(embedding)):
            if stage.halved:
                shapes |= under(f"halves.{part}", depthwise_norm(inputs, 3))
            for block in range(stage.blocks):
                before = stage.size if block else inputs
                shapes |= under(f"blocks.{number}", _block(stage, affine, before))
                number += 1
        for level, stage in enumerate(embedding.stages[-embedding.levels :]):
            shapes |= under(f"project.{level}", convolution_norm(stage.size, embedding.hidden_size, 1))
        return shapes

    def fixed(self, embedding: HGNetLevelsSpec) -> tuple[str, ...]:
        """None."""
        return ()

    def operations(self, embedding: HGNetLevelsSpec) -> int:
        """The convolutions of an image of `image_size`."""
        height, width = embedding.image_size
        half, quarter = height // 2 * (width // 2), height // 4 * (width // 4)
        shapes, products, number = self.parameters(embedding), 0, 0

        def size(part: str) -> int:
            """The weights of the convolutions of a part."""
            return sum(
                math.prod(shape)
                for name, shape in shapes.items()
                if name.startswith(f"{part}.") and name.endswith("convolution.weight")
            )

        cells = {"first": half, "narrow": half, "wide": half, "joined": quarter, "last": quarter}
        products += sum(size(f"stem.{name}") * count for name, count in cells.items())
        unread = len(embedding.stages) - embedding.levels
        for part, (stage, stride) in enumerate(zip(embedding.stages, embedding.strides, strict=True)):
            area = height // stride * (width // stride)
            products += area * size(f"halves.{part}")
            for _ in range(stage.blocks):
                products += area * size(f"blocks.{number}")
                number += 1
            products += area * size(f"project.{part - unread}") if part >= unread else 0
        return 2 * products

    def summary(self, stack: DistributionStackSpec) -> list[str]:
        """The stages, and the pixels of a place of each level."""
        embedding = stack.embedding
        blocks = " / ".join(str(stage.blocks) for stage in embedding.stages)
        sizes = " / ".join(f"{stage.size:,}" for stage in embedding.stages)
        strides = embedding.strides[-embedding.levels :]
        return [
            f"HGNetV2 of {blocks} blocks of {sizes} channels",
            f"a place for {' / '.join(f'{side} x {side}' for side in strides)} pixels, "
            f"multiples of {embedding.stride}",
        ]

    def rows(
        self, stack: DistributionStackSpec, random: np.random.Generator, lengths: Sequence[int]
    ) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: DistributionStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of 1, 3 and 9 images, and images of other heights and widths."""
        embedding = stack.embedding
        return level_cases(embedding.channels, embedding.image_size, embedding.stride)


def stages(embedding: HGNetLevelsSpec) -> list[tuple[int, HGNetStageSpec]]:
    """The channels that each stage reads, and the stage."""
    sizes = [embedding.stem_size, *(stage.size for stage in embedding.stages)]
    return list(zip(sizes, embedding.stages, strict=False))


def depthwise_norm(size: int, kernel: int) -> Shapes:
    """A depthwise convolution, and a batch norm."""
    return convolution_norm(1, size, kernel)


def _relu_convolution(affine: bool, inputs: int, outputs: int, kernel: int) -> Shapes:
    return under("part", convolution_norm(inputs, outputs, kernel)) | _moved(affine)


def _moved(affine: bool) -> Shapes:
    """A factor and an addend."""
    return {"affine.weight": (1,), "affine.bias": (1,)} if affine else {}


def _block(stage: HGNetStageSpec, affine: bool, inputs: int) -> Shapes:
    """Convolutions of a block, and its two projections."""
    shapes, total = Shapes(), inputs
    for layer in range(stage.layers):
        before = stage.inner if layer else inputs
        if stage.light:
            part = under("point", convolution_norm(before, stage.inner, 1))
            part |= under("part", depthwise_norm(stage.inner, stage.kernel)) | _moved(affine)
        else:
            part = _relu_convolution(affine, before, stage.inner, stage.kernel)
        shapes |= under(f"layers.{layer}", part)
        total += stage.inner
    shapes |= under("squeeze", _relu_convolution(affine, total, stage.size // 2, 1))
    return shapes | under("excite", _relu_convolution(affine, stage.size // 2, stage.size, 1))


INPUT = HGNetLevels()
