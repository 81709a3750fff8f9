"""Images with a mask, as the last maps of a residual network (He et al. 2016, 4.1)."""

from torch import Tensor, nn

from txexport.spec import MaskedMapsSpec
from txmodels.inputs.resnet_maps import ResnetMapsEmbedding


class MaskedMapsEmbedding(nn.Module):
    """The last maps of a residual network (He et al. 2016, 4.1)."""

    def __init__(self, spec: MaskedMapsSpec):
        super().__init__()
        self.count = spec.levels
        self.network = ResnetMapsEmbedding(spec.maps)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """pixel_values (B,channels,height,width) -> maps (B,R,C,size), the finest first."""
        maps: tuple[Tensor, ...] = self.network(pixel_values)
        return maps[-self.count :]


Embedding = MaskedMapsEmbedding
