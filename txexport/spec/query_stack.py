"""Stacks of queries over an image."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.images_alone import WithoutBlocks
from txexport.spec.norm import NormSpec
from txexport.spec.resnet import ResNetSpec


@dataclass(frozen=True)
class QueryLayersSpec:
    """`num_layers` layers of attention with `num_heads` heads and a network of `intermediate_size`."""

    num_layers: int
    num_heads: int
    intermediate_size: int

    def __post_init__(self) -> None:
        positive(self, "num_layers", "num_heads", "intermediate_size")


@dataclass(frozen=True)
class QueryBlockSpec:
    """The norm and the activation of layers; norms follow sublayers, or with `pre_norm` precede them.

    With `crossed_first`, vectors attend to the map before they attend to one another.
    """

    norm: NormSpec
    activation: Activation
    pre_norm: bool = False
    crossed_first: bool = False

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.norm.size


@dataclass(frozen=True)
class QueryStackSpec(WithoutBlocks):
    """Learned queries that read an image (Carion et al. 2020, 3.2 and A.3).

    `cells` are the layers over the embedding's map, `objects` those over `queries` vectors, which attend to
    one another and to the map. Sines and cosines of rows and columns are added to queries and keys of every
    attention, learned vectors to those of the objects. Norms follow sublayers, or with `pre_norm` precede
    them; then one follows the map's layers too. One always follows the objects'.
    """

    embedding: ResNetSpec
    cells: QueryLayersSpec
    objects: QueryLayersSpec
    activation: Activation
    norm: NormSpec
    queries: int
    pre_norm: bool = False

    def __post_init__(self) -> None:
        positive(self, "queries")
        width = self.embedding.hidden_size
        if self.norm.size != width:
            raise SpecError(f"QueryStackSpec: norm is {self.norm.size} wide, the embedding {width}")
        for name, part in (("cells", self.cells), ("objects", self.objects)):
            if width % part.num_heads:
                raise SpecError(
                    f"QueryStackSpec: {part.num_heads} heads of {name}, expected a divisor of {width}"
                )
        if width % 4:
            raise SpecError(f"QueryStackSpec: the embedding is {width} wide, expected a multiple of 4")

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states that it returns."""
        return self.embedding.hidden_size

    @property
    def block(self) -> QueryBlockSpec:
        """The norm and the activation of its layers."""
        return QueryBlockSpec(self.norm, self.activation, self.pre_norm)
