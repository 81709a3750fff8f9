"""Attention to a few points near a reference."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class DeformableAttentionSpec:
    """Attention of vectors to `points` places of each of `levels` maps (Zhu et al. 2021, 4.1).

    A vector's reference is a box, or without `boxes` a point; each of `num_heads` heads reads places between
    the centres of pixels, at learned offsets from the point or the box's centre. An offset of `points` is
    `scale` times the box's width or height; from a point, one of 1 is a place of a map. With
    `by_level`, there is a reference for each level.
    """

    hidden_size: int
    num_heads: int
    levels: int
    points: int
    scale: float = 0.5
    boxes: bool = True
    by_level: bool = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "levels", "points", "scale")
        if self.hidden_size % self.num_heads:
            raise SpecError(
                f"DeformableAttentionSpec: {self.num_heads} heads, expected a divisor of {self.hidden_size}"
            )
