"""Spectrograms in overlapping square patches (Gong et al. 2021, 2.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import SpectrogramSpec


class SpectrogramEmbedding(nn.Module):
    """Patches of spectrograms, projected, after two tokens, plus positions (Gong et al. 2021, 2.1)."""

    def __init__(self, spec: SpectrogramSpec):
        super().__init__()
        width, strides = spec.hidden_size, (spec.frequency_stride, spec.time_stride)
        self.tokens = nn.ModuleList(nn.Embedding(1, width) for _ in range(2))
        self.position = nn.Embedding(spec.length, width)
        self.project = nn.Conv2d(1, width, spec.patch_size, strides)

    def forward(self, input_values: Tensor) -> Tensor:
        """input_values (B,frames,bands) -> x (B,S,W)."""
        image = input_values.mT[:, None]  # (B, 1, bands, frames)
        grid = self.project(image)  # (B, W, rows, columns)
        patches = grid.flatten(2).mT  # (B, S - 2, W)
        tokens = [
            token(patches.new_zeros(patches.shape[0], 1, dtype=torch.long)) for token in self.tokens
        ]  # (B, 1, W) each
        embedded = torch.cat([*tokens, patches], dim=1)
        x = embedded + self.position.weight  # (B, S, W)
        return x


Embedding = SpectrogramEmbedding
