"""Attention to a few points near a reference."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class DeformableAttentionSpec:
    """Attention of vectors to `points` places of each of `levels` maps (Zhu et al. 2021, 4.1).

    A vector's reference is a box, or without `boxes` a point; each of `num_heads` heads reads places between
    the centres of pixels, at learned offsets from the point or the box's centre. An offset of `points` is
    `scale` times the box's width or height; from a point, one of 1 is a place of a map. With
    `by_level`, there is a reference for each level. Where levels have `counts` of points, `points` is the
    largest of them, and an offset is multiplied by a stored factor of its point, not divided by `points`.
    Without `projected`, values are read as they are and what is read is returned (Peng et al. 2024, A.2).
    """

    hidden_size: int
    num_heads: int
    levels: int
    points: int
    scale: float = 0.5
    boxes: bool = True
    by_level: bool = False
    counts: tuple[int, ...] = ()
    projected: bool = True

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "levels", "points", "scale")
        if self.hidden_size % self.num_heads:
            raise SpecError(
                f"DeformableAttentionSpec: {self.num_heads} heads, expected a divisor of {self.hidden_size}"
            )
        counts = self.points_of_levels
        if len(counts) != self.levels or min(counts) < 1 or max(counts) != self.points:
            raise SpecError(
                f"DeformableAttentionSpec: {self.counts} points of {self.levels} levels, and {self.points}; "
                "expected a number from 1 for each level, and the largest of them"
            )
        if self.counts and (self.by_level or not self.boxes):
            raise SpecError(
                f"DeformableAttentionSpec: {self.counts} points, by_level is {self.by_level} and boxes "
                f"{self.boxes}; expected one box for all levels"
            )

    @property
    def points_of_levels(self) -> tuple[int, ...]:
        """The number of points in each level."""
        return self.counts or (self.points,) * self.levels

    @property
    def sampled(self) -> int:
        """The places that all heads of a vector read."""
        return self.num_heads * sum(self.points_of_levels)
