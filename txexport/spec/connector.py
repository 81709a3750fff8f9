"""The connector, which projects vectors of images or sounds to a decoder's embeddings."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class ConnectorSpec:
    """The projection of an image's vectors to a decoder's width (Liu et al. 2023, 4.1).

    The first `skipped` vectors are left out. Those of `merged` by `merged` neighbours on the `grid` become
    one, row by row (Shi et al. 2016, 2.2), or if they are `pooled` their mean, and pass an optional norm.
    Without a grid, neighbours are side by side already. Of a sound, `consecutive` vectors are joined
    or pooled. With `normed_first`, the norm is of each vector.
    There are two layers with an `activation` between them, the first of `intermediate_size` numbers, or one
    layer without them; `bias` is that of each.
    """

    hidden_size: int
    size: int
    grid: tuple[int, int] | None
    intermediate_size: int | None = None
    activation: Activation | None = None
    bias: bool = True
    skipped: int = 0
    merged: int = 1
    norm: NormSpec | None = None
    pooled: bool = False
    normed_first: bool = False
    consecutive: int = 1

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "size", "merged", "consecutive")
        if (self.intermediate_size is None) != (self.activation is None):
            raise SpecError(
                f"ConnectorSpec: intermediate_size is {self.intermediate_size} with activation "
                f"{self.activation}; expected both, or neither"
            )
        if self.skipped < 0 or any(side < 1 or side % self.merged for side in self.grid or ()):
            raise SpecError(
                f"ConnectorSpec: skipped is {self.skipped} and the grid {self.grid}; expected 0 or more, and "
                f"multiples of {self.merged}"
            )
        if self.consecutive > 1 and (self.merged > 1 or self.skipped or self.grid is not None):
            raise SpecError(
                f"ConnectorSpec: consecutive is {self.consecutive} with the grid {self.grid}, {self.skipped} "
                f"skipped and {self.merged} x {self.merged} neighbours; expected None, 0 and 1 x 1"
            )
        normed = self.hidden_size if self.normed_first else self.wide
        if self.norm is not None and self.norm.size != normed:
            raise SpecError(f"ConnectorSpec: the norm is {self.norm.size} wide, expected {normed}")

    @property
    def wide(self) -> int:
        """The numbers of a vector before it is projected."""
        return self.hidden_size * (1 if self.pooled else self.joined)

    @property
    def joined(self) -> int:
        """The number of vectors that become one."""
        return self.merged**2 * self.consecutive

    @property
    def vectors(self) -> int:
        """The number of vectors that a decoder reads of an image of one size."""
        assert self.grid is not None
        rows, columns = self.grid
        return rows * columns // self.merged**2
