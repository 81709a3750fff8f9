"""Depth of every pixel of an image, fused from the states of several layers or the maps of stages."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.convolution_module import BatchNormSpec
from txexport.spec.feature_fusion import FeatureFusionSpec


@dataclass(frozen=True)
class DepthSpec:
    """Depth estimation from fused maps of several layers (Ranftl et al. 2021, 3.1; Yang et al. 2024, 3).

    The fused map, convolved to `head_size` channels at the image's size, becomes the depth of each pixel of a
    whole patch: relative ones by a ReLU, `metric` ones by a sigmoid; both are multiplied by `max_depth`.
    A convolution and a ReLU precede all that if it is `projected`.
    """

    fusion: FeatureFusionSpec
    head_size: int
    metric: bool = False
    max_depth: float = 1.0
    projected: bool = False

    def __post_init__(self) -> None:
        positive(self, "head_size", "max_depth")
        if self.fusion.size < 2:
            raise SpecError(f"DepthSpec: the fused map has {self.fusion.size} channel, expected 2 or more")


@dataclass(frozen=True)
class StagedDepthSpec:
    """Depth estimation from the maps of all stages, selectively fused (Kim et al. 2022, 3.2 and 3.3).

    Each map, of `sizes` channels, is projected to `size` ones, where they differ. From the coarsest to the
    finest, maps of twice as many places are added by the shares that three convolutions give both, two of
    them before batch norms of `eps`. The last one at the image's size becomes the depth of each pixel by a
    sigmoid, multiplied by `max_depth`.
    """

    sizes: tuple[int, ...]
    size: int
    eps: float
    max_depth: float = 1.0

    def __post_init__(self) -> None:
        positive(self, "eps", "max_depth")
        if not self.sizes or min(self.sizes) < 1 or self.size < 2:
            raise SpecError(
                f"StagedDepthSpec: sizes are {self.sizes} and size {self.size}; expected one or more of 1 or "
                "more, and 2 or more"
            )

    @property
    def norms(self) -> tuple[BatchNormSpec, BatchNormSpec]:
        """The batch norms of a fusion."""
        return BatchNormSpec(self.size, self.eps), BatchNormSpec(self.size // 2, self.eps)
