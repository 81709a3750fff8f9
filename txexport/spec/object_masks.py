"""Labels, boxes and masks of an image's objects, the masks from attention."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import GroupNormSpec

GROUPS = 8  # of norms, or as many as there are channels
BOX_LAYERS = 3  # dense layers that make a box


@dataclass(frozen=True)
class ObjectMasksSpec:
    """Labels, boxes and masks of `queries` vectors of `hidden_size` numbers (Carion et al. 2020, 4.4).

    Each of `num_heads` heads weighs the places of an image for each query. These weights, beside the map that
    the image's layers read, are convolved, and from the coarsest to the finest of the other maps of a
    network, with `sizes` channels, the finest first, projected, added and convolved. Each convolution has a
    group norm of `eps` and the activation behind it; a last one gives the mask.
    """

    queries: int
    hidden_size: int
    num_heads: int
    sizes: tuple[int, ...]
    activation: Activation
    eps: float = 1e-5

    def __post_init__(self) -> None:
        positive(self, "queries", "hidden_size", "num_heads", "eps")
        if self.hidden_size % self.num_heads or not self.sizes or min(self.sizes) < 1:
            raise SpecError(
                f"ObjectMasksSpec: {self.num_heads} heads of {self.hidden_size} and maps of {self.sizes} "
                "channels; expected a divisor, and one map or more of 1 or more"
            )
        if self.hidden_size % 2 ** len(self.channels):
            raise SpecError(
                f"ObjectMasksSpec: hidden_size is {self.hidden_size}, expected a multiple of "
                f"{2 ** len(self.channels)}: each convolution halves the channels"
            )
        _ = self.norms

    @property
    def joined(self) -> int:
        """Channels of the weights beside the map."""
        return self.hidden_size + self.num_heads

    @property
    def channels(self) -> list[int]:
        """Channels of each map behind the first convolution, the coarsest first."""
        return [self.hidden_size // 2**number for number in range(1, len(self.sizes) + 2)]

    @property
    def norms(self) -> list[GroupNormSpec]:
        """The norm of each convolution but the last."""
        return [GroupNormSpec(size, min(GROUPS, size), self.eps) for size in (self.joined, *self.channels)]
