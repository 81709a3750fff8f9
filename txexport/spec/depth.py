"""Depth of every pixel of an image, fused from the states of several layers."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.feature_fusion import FeatureFusionSpec


@dataclass(frozen=True)
class DepthSpec:
    """Depth estimation from fused maps of several layers (Ranftl et al. 2021, 3.1; Yang et al. 2024, 3).

    The fused map, convolved to `head_size` channels at the image's size, becomes the depth of each pixel of a
    whole patch: relative ones by a ReLU, `metric` ones by a sigmoid; both are multiplied by `max_depth`.
    """

    fusion: FeatureFusionSpec
    head_size: int
    metric: bool = False
    max_depth: float = 1.0

    def __post_init__(self) -> None:
        positive(self, "head_size", "max_depth")
        if self.fusion.size < 2:
            raise SpecError(f"DepthSpec: the fused map has {self.fusion.size} channel, expected 2 or more")
