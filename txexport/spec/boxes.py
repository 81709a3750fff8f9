"""Boxes of objects in an image."""

from dataclasses import dataclass

from txexport.errors import positive


@dataclass(frozen=True)
class BoxesSpec:
    """Labels and boxes of an image's objects (Carion et al. 2020, 3.2).

    The last `queries` vectors of a stack each have scores of the labels, of `score_layers` dense layers with
    ReLU between them, and a box, of `box_layers`: centre, width and height, as shares of the image's. If it
    is `refined`, it changes the box that the stack returns with each query, and the chance of each label is
    its own: no score is that of "no object" (Zhu et al. 2021, A.4).
    """

    queries: int
    score_layers: int
    box_layers: int
    refined: bool = False

    def __post_init__(self) -> None:
        positive(self, "queries", "score_layers", "box_layers")
