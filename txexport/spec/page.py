"""Pages: words in their boxes, and the image of the page."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec
from txexport.spec.relative_position import RelativeSpec
from txexport.spec.signal_embedding import PatchSpec

SIDE = 1000  # the width and the height of a page in the units of boxes


@dataclass(frozen=True)
class BoxTablesSpec:
    """Learned vectors of a word's box, from four tables of `rows` coordinates (Xu et al. 2020, 3.2).

    One table is of left and right edges, one of top and bottom edges, with vectors of `edge_size` numbers;
    heights and widths have one each, of `extent_size` numbers. The six vectors of a box are concatenated
    where they are `joined`, and added otherwise. With `longest`, heights and widths are read within 0 and
    that (Huang et al. 2022).
    """

    rows: int
    edge_size: int
    extent_size: int
    joined: bool = False
    longest: int | None = None

    def __post_init__(self) -> None:
        positive(self, "edge_size", "extent_size")
        if self.rows <= SIDE:
            raise SpecError(f"BoxTablesSpec: {self.rows} rows, expected one for each of 0 to {SIDE}")
        if self.longest is not None and not 0 < self.longest < self.rows:
            raise SpecError(f"BoxTablesSpec: longest is {self.longest}, expected 1 to {self.rows - 1}")
        if not self.joined and self.extent_size != self.edge_size:
            raise SpecError(
                f"BoxTablesSpec: vectors of {self.edge_size} and {self.extent_size} numbers are added; "
                "expected one size, or joined=True"
            )

    @property
    def size(self) -> int:
        """Width of a box's vector."""
        return 4 * self.edge_size + 2 * self.extent_size if self.joined else self.edge_size


@dataclass(frozen=True)
class PageImageSpec:
    """Patches of a page's image, which follow its tokens; then a norm of both (Huang et al. 2022, 3.1).

    A patch has the box of its place on the page, and a token before the patches nearly all of the page.
    """

    patches: PatchSpec
    norm: NormSpec

    def __post_init__(self) -> None:
        expected = PatchSpec(
            self.patches.hidden_size,
            self.patches.image_size,
            self.patches.patch_size,
            self.patches.channels,
            norm=self.patches.norm,
        )
        if self.patches != expected or self.norm.size != self.patches.hidden_size:
            raise SpecError(
                f"PageImageSpec: {self.patches} and a norm of {self.norm.size} numbers; expected one learned "
                "token, positions of one size, a bias, and a norm as wide"
            )

    @property
    def boxes(self) -> list[list[int]]:
        """Left, top, right and bottom (P,4) of the token before the patches, and of each patch."""
        rows, columns = self.patches.grid
        down, across = ([SIDE * i // count for i in range(count + 1)] for count in (rows, columns))
        patches = [
            [across[x], down[y], across[x + 1], down[y + 1]] for y in range(rows) for x in range(columns)
        ]
        return [[1, 1, SIDE - 1, SIDE - 1], *patches]


@dataclass(frozen=True)
class PageBiasSpec:
    """Learned biases of attention's scores, for how far apart tokens are on a page (Huang et al. 2022, 3.1).

    One is of the distance in the `order` of tokens, in which patches count from 0 again; with `edges`, two
    more are of the distances of left and of bottom edges. Their sum is multiplied by `scale`.
    """

    order: RelativeSpec
    edges: RelativeSpec | None
    scale: float

    def __post_init__(self) -> None:
        positive(self, "scale")
        for part in filter(None, (self.order, self.edges)):
            if not part.bidirectional or part.every_layer:
                raise SpecError(
                    f"PageBiasSpec: bidirectional={part.bidirectional}, every_layer={part.every_layer}; "
                    "expected True and False"
                )

    @property
    def tables(self) -> dict[str, RelativeSpec]:
        """The tables of biases by name."""
        edges = {} if self.edges is None else {"left": self.edges, "bottom": self.edges}
        return {"order": self.order, **edges}
