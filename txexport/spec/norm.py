"""Normalisation of vectors."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import NormKind


@dataclass(frozen=True)
class NormSpec:
    """Normalisation of vectors of `size` numbers; a layer norm has a bias unless `bias` is False.

    The kind that does not normalise has a bias, and no use for `eps`, which is 1 there.
    """

    size: int
    eps: float
    kind: NormKind = NormKind.LAYER
    bias: bool = True

    def __post_init__(self) -> None:
        positive(self, "size", "eps")
        if self.kind == NormKind.NONE and not (self.bias and self.eps == 1):
            raise SpecError(
                f"NormSpec: kind '{self.kind}' with eps={self.eps} and bias={self.bias}, expected 1 and True"
            )


@dataclass(frozen=True)
class GroupNormSpec:
    """Normalisation of maps of `size` channels in `groups`, over channels and places (Wu and He 2018, 3)."""

    size: int
    groups: int
    eps: float

    def __post_init__(self) -> None:
        positive(self, "size", "groups", "eps")
        if self.size % self.groups:
            raise SpecError(
                f"GroupNormSpec: {self.size} channels in {self.groups} groups, expected a multiple"
            )
