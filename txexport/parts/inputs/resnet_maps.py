"""Images as the maps of all stages of a residual network (He et al. 2016, 4.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port, floats
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise
from txexport.parts.inputs.resnet import INPUT as RESNET
from txexport.parts.inputs.resnet import MOST
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import MapStackSpec, ResNetMapsSpec
from txexport.spec.shapes import Shapes


class ResNetMaps:
    """Pixels (B,channels,height,width) of any height and width."""

    spec = ResNetMapsSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ()

    def ports(self, stack: MapStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values."""
        channels = stack.embedding.channels
        return (floats(names.PIXEL_VALUES, rows[0], channels, names.HEIGHT, names.WIDTH),)

    def length(self, embedding: ResNetMapsSpec, tokens: int | str) -> int | str:
        """One vector for each place of the last map."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: ResNetMapsSpec, tokens: int) -> int:
        """The places of the last map of an image of `image_size`."""
        return embedding.length

    def facts(self, embedding: ResNetMapsSpec) -> GraphFacts:
        """None."""
        return GraphFacts()

    def parameters(self, embedding: ResNetMapsSpec) -> Shapes:
        """The stem and the layers of all stages."""
        shapes = RESNET.parameters(embedding.network)
        return {name: shape for name, shape in shapes.items() if not name.startswith("project.")}

    def fixed(self, embedding: ResNetMapsSpec) -> tuple[str, ...]:
        """None."""
        return ()

    def operations(self, embedding: ResNetMapsSpec) -> int:
        """The convolutions of an image of `image_size`."""
        return RESNET.operations(embedding.network) - 2 * embedding.length * embedding.hidden_size**2

    def summary(self, stack: MapStackSpec) -> list[str]:
        """The stages, and the pixels of a place."""
        assert isinstance(stack.embedding, ResNetMapsSpec)
        return self.described(stack.embedding)

    def described(self, embedding: ResNetMapsSpec) -> list[str]:
        """As `summary`."""
        return RESNET.described(embedding.network)

    def rows(self, stack: MapStackSpec, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: MapStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of images of several sizes."""
        random, stride = np.random.default_rng(0), stack.embedding.stride
        for name, rows, height, width in (
            ("one", 1, 2 * stride, 3 * stride),
            ("two of one place", 2, stride, stride),
            ("one of odd sides", 1, 2 * stride + 1, stride + 7),
            ("three", 3, stride - 3, 5 * stride - 1),
            ("nine", MOST, 3 * stride, 2 * stride),
        ):
            shape = rows, stack.embedding.channels, height, width
            yield SignalCase(name, random.standard_normal(shape, np.float32))


INPUT = ResNetMaps()
