"""Labels, boxes and masks of an image's objects, the masks of a map's places."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.boxes import BoxesSpec
from txexport.spec.enums import Activation
from txexport.spec.feed_forward import FeedForwardSpec
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class InstanceMasksSpec:
    """Labels and boxes as `boxes` has them, and a mask of each query (Robinson et al. 2025, 3).

    The map of an image, of `hidden_size` channels, is interpolated to a place for `ratio` by `ratio` pixels.
    Each of `blocks` adds what a convolution of each channel alone, a norm of `map_eps`, a projection and the
    activation make of it. A query passes a network of `inner` numbers behind a norm of `eps`, and is
    projected; a mask is its product with every place of the projected map, plus a learned number.
    """

    boxes: BoxesSpec
    hidden_size: int
    blocks: int
    inner: int
    activation: Activation
    ratio: int
    eps: float = 1e-5
    map_eps: float = 1e-6

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "blocks", "inner", "ratio", "eps", "map_eps")
        if not self.boxes.refined or self.boxes.quality is not None:
            raise SpecError("InstanceMasksSpec: expected boxes with refined=True and no quality")

    @property
    def network(self) -> FeedForwardSpec:
        """The feed-forward network of queries."""
        return FeedForwardSpec(self.hidden_size, self.inner, self.activation)

    @property
    def norm(self) -> NormSpec:
        """The norm of queries."""
        return NormSpec(self.hidden_size, self.eps)

    @property
    def map_norm(self) -> NormSpec:
        """The norm of the map's places."""
        return NormSpec(self.hidden_size, self.map_eps)
