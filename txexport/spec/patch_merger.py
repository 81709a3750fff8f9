"""Neighbouring patches of an image of any size, merged by a projection."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class PatchMergerSpec:
    """A norm of each vector, then one projection of `merged` by `merged` neighbours to one, without a bias.

    A connector follows (Mistral Small 3.1, 2025).
    """

    hidden_size: int
    merged: int
    norm: NormSpec

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "merged")
        if self.norm.size != self.hidden_size:
            raise SpecError(
                f"PatchMergerSpec: the norm is {self.norm.size} wide, expected {self.hidden_size}"
            )
