"""Maps of several stages of an image encoder, each projected to one width."""

from torch import Tensor, nn

from txexport.spec import MapNeckSpec
from txmodels.doubled import doubled


class MapNeck(nn.Module):
    """Projections of every map, coarser ones added to finer ones (Lin et al. 2017, 3)."""

    def __init__(self, spec: MapNeckSpec):
        super().__init__()
        self.spec = spec
        self.projects = nn.ModuleList(nn.Conv2d(width, spec.size, 1) for width in spec.sizes)
        self.narrow = nn.ModuleList(nn.Conv2d(spec.size, width, 1) for width in spec.narrow)
        self.no_memory = nn.Embedding(1, spec.size)

    def forward(self, *x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (B,R,C,W) of every stage -> maps (B,size/8,R,C), (B,size/4,R/2,C/2), (B,size,R/4,C/4)."""
        features: list[Tensor] = []  # from the coarsest map on
        for stage in reversed(range(len(x))):
            projected = self.projects[stage](x[stage].permute(0, 3, 1, 2))  # (B, size, R, C)
            if stage in self.spec.top_down:
                projected = projected + doubled(features[-1])
            features.append(projected)
        finest, finer = (project(part) for project, part in zip(self.narrow, features[:-3:-1], strict=True))
        third = features[-3] + self.no_memory.weight[..., None, None]
        return finest, finer, third
