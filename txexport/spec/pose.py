"""Heat maps of the points of a body."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.convolution_module import BatchNormSpec


@dataclass(frozen=True)
class PoseSpec:
    """Heat maps of points from the patches of the state of one layer (Xu et al. 2022, 3.1 and 3.2).

    Patches have `patch_size` pixels a side; the first `tokens` vectors are none. With a `norm`, two
    transposed convolutions to its size, each before it and a ReLU, double the rows and columns of the
    patches, and a projection makes the maps. Without one, the patches are interpolated by `factor` behind a
    ReLU, and convolved.
    """

    layers: tuple[int, ...]
    patch_size: int
    tokens: int = 0
    factor: int = 4
    norm: BatchNormSpec | None = None

    def __post_init__(self) -> None:
        positive(self, "patch_size", "factor")
        if len(self.layers) != 1 or self.layers[0] < 0 or self.tokens < 0:
            raise SpecError(
                f"PoseSpec: layers are {self.layers} and tokens {self.tokens}; expected one from 0, and 0 or "
                "more"
            )
        if self.norm is not None and self.factor != 4:
            raise SpecError(f"PoseSpec: factor is {self.factor} with a norm, expected 4: twice the double")
