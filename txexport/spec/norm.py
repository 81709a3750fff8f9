"""Normalisation of vectors."""

from dataclasses import dataclass

from txexport.errors import positive
from txexport.spec.enums import NormKind


@dataclass(frozen=True)
class NormSpec:
    """Normalisation of vectors of `size` numbers; a layer norm has a bias unless `bias` is False."""

    size: int
    eps: float
    kind: NormKind = NormKind.LAYER
    bias: bool = True

    def __post_init__(self) -> None:
        positive(self, "size", "eps")
