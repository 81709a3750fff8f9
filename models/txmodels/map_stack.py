"""The maps of a network of convolutions, without layers over them."""

from torch import Tensor, nn

from txexport.spec import MapStackSpec
from txmodels.inputs import signal_embedding
from txmodels.stack import Given
from txmodels.staged_stack import flat_grid


class MapEncoder(nn.Module):
    """An image's maps, for a head that reads all of them, or the last one."""

    def __init__(self, spec: MapStackSpec):
        super().__init__()
        self.embedding = signal_embedding(spec)

    def forward(
        self, pixel_values: Tensor, attention_mask: Tensor | None = None, outputs: Given | None = None
    ) -> tuple[Tensor, None]:
        """pixel_values (B,channels,height,width) -> the last map as vectors (B,S,W), and None."""
        states, maps = outputs or Given(), self.embedding(pixel_values)
        for one in maps:
            states.stage(one)
        return flat_grid(maps[-1]), None
