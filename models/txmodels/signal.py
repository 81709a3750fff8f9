"""Images and sounds to vectors."""

import torch
from torch import Tensor, nn

from txexport.spec import PatchSpec, SoundSpec
from txmodels.activation import activation
from txmodels.norm import Norm


class PatchEmbedding(nn.Module):
    """Patches of images, projected, after learned tokens, plus positions (Dosovitskiy et al. 2021, 3.1)."""

    def __init__(self, spec: PatchSpec):
        super().__init__()
        width, size = spec.hidden_size, spec.patch_size
        self.tokens = nn.ModuleList(nn.Embedding(1, width) for _ in range(spec.tokens))
        self.position = nn.Embedding(spec.length, width)
        self.project = nn.Conv2d(spec.channels, width, size, size, bias=spec.bias)
        self.norm = Norm(spec.norm) if spec.norm is not None else nn.Identity()

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B,channels,height,width) -> x (B,S,W)."""
        patches = self.project(pixel_values).flatten(2).mT  # (B, S - tokens, W)
        tokens = [
            token(patches.new_zeros(len(patches), 1, dtype=torch.long)) for token in self.tokens
        ]  # (B, 1, W) each
        words = torch.cat([*tokens, patches], dim=1) + self.position.weight  # (B, S, W)
        x: Tensor = self.norm(words)
        return x


class SoundEmbedding(nn.Module):
    """Two convolutions over the frames of a spectrogram, plus positions (Radford et al. 2022, 2.2)."""

    def __init__(self, spec: SoundSpec):
        super().__init__()
        self.act = activation(spec.activation)
        self.first = nn.Conv1d(spec.bands, spec.hidden_size, 3, padding=1)
        self.second = nn.Conv1d(spec.hidden_size, spec.hidden_size, 3, stride=2, padding=1)
        self.position = nn.Embedding(spec.length, spec.hidden_size)

    def forward(self, input_features: Tensor) -> Tensor:
        """input_features (B,bands,frames) -> x (B,S,W), S half as many as frames."""
        frames = self.act(self.first(input_features))  # (B, W, frames)
        halved = self.act(self.second(frames))  # (B, W, S)
        x = halved.mT + self.position.weight  # (B, S, W)
        return x
