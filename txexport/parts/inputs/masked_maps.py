"""Images with a mask, as the last maps of a residual network (He et al. 2016, 4.1)."""

from collections.abc import Iterator, Sequence

import numpy as np

from txexport.contracts import names
from txexport.contracts.contract import Port
from txexport.contracts.stage import GraphFacts
from txexport.parts.inputs._signals import noise
from txexport.parts.inputs.resnet import masked_cases, masked_ports
from txexport.parts.inputs.resnet_maps import INPUT as MAPS
from txexport.parts.part import Shape, SignalCase, Sources
from txexport.spec import DeformableStackSpec, MaskedMapsSpec
from txexport.spec.shapes import Shapes, under


class MaskedMaps:
    """Pixels (B,channels,height,width) of any height and width, and a mask of those that are no padding."""

    spec = MaskedMapsSpec
    reads_tokens = False
    last_state_before_norm = True
    tables = ()

    def ports(self, stack: DeformableStackSpec, rows: Shape) -> tuple[Port, ...]:
        """pixel_values and pixel_mask, which need not have the same height and width."""
        return masked_ports(stack.embedding.channels, rows)

    def length(self, embedding: MaskedMapsSpec, tokens: int | str) -> int | str:
        """One vector for each query."""
        return names.SEQUENCE_LENGTH

    def vectors(self, embedding: MaskedMapsSpec, tokens: int) -> int:
        """The places of the last map of an image of `image_size`."""
        return embedding.length

    def facts(self, embedding: MaskedMapsSpec) -> GraphFacts:
        """None."""
        return GraphFacts()

    def parameters(self, embedding: MaskedMapsSpec) -> Shapes:
        """The stem and the layers of all stages."""
        return under("network", MAPS.parameters(embedding.maps))

    def fixed(self, embedding: MaskedMapsSpec) -> tuple[str, ...]:
        """None."""
        return ()

    def operations(self, embedding: MaskedMapsSpec) -> int:
        """The convolutions of an image of `image_size`."""
        return MAPS.operations(embedding.maps)

    def summary(self, stack: DeformableStackSpec) -> list[str]:
        """The stages, and the pixels of a place of each map."""
        return MAPS.described(stack.embedding.maps)

    def rows(
        self, stack: DeformableStackSpec, random: np.random.Generator, lengths: Sequence[int]
    ) -> Sources:
        """Random signals, one for each length."""
        return noise(stack, random, len(lengths))

    def cases(self, stack: DeformableStackSpec, vectors: int) -> Iterator[SignalCase]:
        """Batches of images of several sizes, with padding at the bottom and on the right, and without."""
        network = stack.embedding.maps.network
        return masked_cases(network.channels, network.stride)


INPUT = MaskedMaps()
