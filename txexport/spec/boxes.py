"""Boxes of objects in an image."""

from dataclasses import dataclass
from itertools import pairwise

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class EdgesSpec:
    """Distributions over the offset of each edge of a box from that of a first box (Peng et al. 2024, 4.1).

    Each of the four has `bins` + 1 scores. The offsets that these stand for grow geometrically from 0 in the
    middle; the outermost on either side is twice its neighbour.
    """

    bins: int

    def __post_init__(self) -> None:
        if self.bins < 4 or self.bins % 2:
            raise SpecError(f"EdgesSpec: {self.bins} bins, expected an even number from 4")


@dataclass(frozen=True)
class QualitySpec:
    """The quality of a box, which is added to its scores of labels (Peng et al. 2024, A.1).

    It is computed by `layers` dense layers of `hidden_size` numbers, with ReLU between them, from the `best`
    probabilities of each edge and their mean.
    """

    edges: EdgesSpec
    best: int
    layers: int
    hidden_size: int

    def __post_init__(self) -> None:
        positive(self, "best", "layers", "hidden_size")
        if self.best > self.edges.bins + 1:
            raise SpecError(f"QualitySpec: best {self.best} of {self.edges.bins + 1}, expected no more")

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Numbers that each dense layer reads and returns."""
        widths = [4 * (self.best + 1), *[self.hidden_size] * (self.layers - 1), 1]
        return list(pairwise(widths))


@dataclass(frozen=True)
class BoxesSpec:
    """Labels and boxes of an image's objects (Carion et al. 2020, 3.2).

    The last `queries` vectors of a stack each have scores of the labels, of `score_layers` dense layers with
    ReLU between them, and a box, of `box_layers`: centre, width and height, as shares of the image's. If it
    is `refined`, it changes the box that the stack returns with each query, and the chance of each label is
    its own: no score is that of "no object" (Zhu et al. 2021, A.4). The change is one of logits; if it is
    `scaled`, of the centre in sides of the box, and of the logarithms of its sides (Girshick et al. 2014, C).
    With `quality`, the stack's boxes are not changed, and its distributions of edges change the scores.
    """

    queries: int
    score_layers: int
    box_layers: int
    refined: bool = False
    quality: QualitySpec | None = None
    scaled: bool = False

    def __post_init__(self) -> None:
        positive(self, "queries", "score_layers", "box_layers")
        if self.quality is not None and not self.refined:
            raise SpecError("BoxesSpec: quality without refined, expected both")
        if self.scaled and (not self.refined or self.quality is not None):
            raise SpecError("BoxesSpec: scaled is True, expected refined=True and no quality")
