"""Images with a mask, as maps of a ViT whose layers attend within windows (Li et al. 2022, 3)."""

import torch
from torch import Tensor, nn

from txexport.spec import WindowedMapsSpec
from txmodels.block import EncoderBlock
from txmodels.inputs.patches import PatchEmbedding
from txmodels.norm import Norm
from txmodels.projector import ProjectorLevel


class WindowedMapsEmbedding(nn.Module):
    """Feature levels of a ViT with window attention (Chen et al. 2024, 3.1)."""

    def __init__(self, spec: WindowedMapsSpec):
        super().__init__()
        self.spec, maps, size = spec, len(spec.read), spec.patches.hidden_size
        self.patches = PatchEmbedding(spec.patches)
        self.layers = nn.ModuleList(EncoderBlock(spec.block) for _ in range(spec.num_layers))
        self.norm: nn.Module = nn.Identity() if spec.norm is None else Norm(spec.norm)
        self.levels = nn.ModuleList(
            ProjectorLevel(spec.projector, maps, size, scale) for scale in spec.projector.scales
        )

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, ...]:
        """pixel_values (B,channels,height,width) -> levels (B,R,C,W)."""
        spec, (height, width) = self.spec, pixel_values.shape[2:]
        rows, columns = height // spec.patches.patch_size, width // spec.patches.patch_size
        tokens, cells = self.patches(pixel_values).tensor_split((spec.patches.tokens,), dim=1)
        windows = cut(cells.unflatten(1, (rows, columns)), spec.side, spec.turned)  # (B*K, S, W)
        every = spec.side**2
        x = torch.cat([tokens.repeat_interleave(every, dim=0), windows], dim=1)  # (B*K, T, W)
        states = [x]
        for number, layer in enumerate(self.layers):
            together = every if number in spec.everywhere else 1
            x, *_ = layer(x.reshape(-1, together * x.shape[1], x.shape[2]), mask=None, cos=None, sin=None)
            x = x.reshape(states[0].shape)
            states.append(x)
        read = [self.norm(states[number])[:, spec.patches.tokens :] for number in spec.read]
        maps = {
            str(number): joined(x, spec.side, rows, columns) for number, x in enumerate(read)
        }  # (B, channels, R, C)
        return tuple(level(maps).permute(0, 2, 3, 1) for level in self.levels)


def cut(x: Tensor, side: int, turned: bool) -> Tensor:
    """x (B,R,C,W) -> vectors (B*K,S,W) of side * side windows, one of which has R/side rows."""
    rows, columns = x.shape[1] // side, x.shape[2] // side
    high, wide = (columns, rows) if turned else (rows, columns)
    parts = x.reshape(x.shape[0], side, high, side, wide, x.shape[3]).transpose(2, 3)
    windows = parts.reshape(-1, high * wide, x.shape[3])
    return windows


def joined(x: Tensor, side: int, rows: int, columns: int) -> Tensor:
    """Vectors x (B*K,S,W) of side * side windows -> a map (B,W,rows,columns)."""
    parts = x.reshape(-1, side, side, rows // side, columns // side, x.shape[2])
    y = parts.permute(0, 5, 1, 3, 2, 4).reshape(-1, x.shape[2], rows, columns)
    return y


Embedding = WindowedMapsEmbedding
