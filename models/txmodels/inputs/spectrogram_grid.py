"""Spectrograms folded into squares, as grids of patches (Chen et al. 2022, 3.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import BatchNormSpec, SpectrogramGridSpec
from txmodels.batch_norm import BatchNorm
from txmodels.norm import Norm

CUBIC = -0.75  # the slope of the cubic between frames


class SpectrogramGridEmbedding(nn.Module):
    """Bands normalised, frames interpolated and folded, patches projected (Chen et al. 2022, 3.1)."""

    def __init__(self, spec: SpectrogramGridSpec):
        super().__init__()
        self.spec = spec
        self.bands = BatchNorm(BatchNormSpec(spec.num_mel_bins, spec.eps))
        self.project = nn.Conv2d(1, spec.hidden_size, spec.patch_size, spec.patch_size)
        self.norm = Norm(spec.norm) if spec.norm is not None else nn.Identity()

    def forward(self, input_features: Tensor) -> Tensor:
        """input_features (B,1,frames,bands) -> x (B,R,C,W), rows and columns of patches."""
        bands = self.bands(input_features[:, 0].mT)  # (B, bands, frames)
        frames = cubic(self.spec.max_length, bands)  # (B, bands, max_length)
        folded = frames.unflatten(2, (self.spec.folds, self.spec.side)).transpose(1, 2)
        square = folded.flatten(1, 2)[:, None]  # (B, 1, side, side)
        x: Tensor = self.norm(self.project(square).permute(0, 2, 3, 1))  # (B, R, C, W)
        return x


def cubic(size: int, x: Tensor) -> Tensor:
    """x (B,bands,frames) -> y (B,bands,size), by cubics (Keys 1981) between the centres of outer frames.

    A frame's place n (frames - 1) / (size - 1) is split into whole and rest as integers, without rounding.
    """
    last = x.shape[2] - 1
    scaled = torch.arange(size, device=x.device) * last
    before, rest = scaled // (size - 1), (scaled % (size - 1)).to(x) / (size - 1)  # (size)
    near, far = (share * share * ((CUBIC + 2) * share - (CUBIC + 3)) + 1 for share in (rest, 1 - rest))
    outer = [
        ((CUBIC * share - 5 * CUBIC) * share + 8 * CUBIC) * share - 4 * CUBIC
        for share in (rest + 1, 2 - rest)
    ]
    y = torch.zeros_like(x[:, :, :1])
    for offset, weight in zip((-1, 0, 1, 2), (outer[0], near, far, outer[1]), strict=True):
        y = y + x.index_select(2, (before + offset).clamp(0, last)) * weight
    return y


Embedding = SpectrogramGridEmbedding
