"""Attention to a few points near a reference (Zhu et al. 2021, 4.1)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import grid_sample

from txexport.spec import DeformableAttentionSpec
from txmodels.linear import Linear


class DeformableAttention(nn.Module):
    """Shares of values at learned offsets from a box's centre or a point, in maps of several sizes."""

    def __init__(self, spec: DeformableAttentionSpec):
        super().__init__()
        self.spec, width = spec, spec.hidden_size
        self.offsets = Linear(width, 2 * spec.sampled)
        self.shares = Linear(width, spec.sampled)
        if spec.counts:
            self.factors = nn.Parameter(torch.ones(sum(spec.counts)))
        self.v: nn.Module = Linear(width, width) if spec.projected else nn.Identity()
        self.o: nn.Module = Linear(width, width) if spec.projected else nn.Identity()

    def forward(
        self, x: Tensor, references: Tensor, image: Tensor, sizes: dict[str, Tensor], **masks: Tensor
    ) -> Tensor:
        """x (B,Q,W), boxes (B,Q,4) or points (B,Q,2), image (B,S,W) of all levels, their sizes -> y (B,Q,W).

        A size is the rows and columns of a level. Of references of each level there are (B,Q,L,4) or
        (B,Q,L,2). The mask `real` (B,S) is false for places whose values are zeros.
        """
        spec, heads = self.spec, self.spec.num_heads
        counts = spec.points_of_levels
        rows, points = x.shape[0] * heads, sum(counts)
        if spec.by_level:
            around = references.repeat_interleave(spec.points, dim=2)[:, :, None]  # (B, Q, 1, L*P, 4 or 2)
        else:
            around = references[:, :, None, None]  # (B, Q, 1, 1, 4 or 2)
        offsets = self.offsets(x).unflatten(2, (heads, points, 2))  # (B, Q, N, L*P, 2)
        if spec.boxes:
            centre, extent = around.chunk(2, dim=4)  # (B, Q, 1, 1, 2)
            if spec.counts:
                offsets = offsets * self.factors[:, None]
            else:
                offsets = offsets / spec.points
            locations = centre + offsets * extent * spec.scale
        else:
            steps = torch.cat([size.flip(0).expand(spec.points, 2) for size in sizes.values()])  # (L*P, 2)
            locations = around + offsets / steps.to(x)
        grid = (2 * locations - 1).transpose(1, 2).flatten(0, 1)  # (B*N, Q, L*P, 2)
        shares = self.shares(x).unflatten(2, (heads, points)).softmax(3)  # (B, Q, N, L*P)
        shares = shares.transpose(1, 2).reshape(rows, 1, -1, points)  # (B*N, 1, Q, L*P)
        values = self.v(image)
        if "real" in masks:
            values = values.masked_fill(~masks["real"][:, :, None], 0)
        values = values.transpose(1, 2)  # (B, W, S)
        mixed, start = None, 0
        for level, size in enumerate(sizes.values()):
            height, width = size.tolist()
            cells = values[:, :, start : start + height * width].reshape(rows, -1, height, width)
            start += height * width
            first = sum(counts[:level])
            part = slice(first, first + counts[level])
            read = grid_sample(cells, grid[:, :, part], align_corners=False)  # (B*N, H, Q, P)
            total = (read * shares[..., part]).sum(3)  # (B*N, H, Q)
            mixed = total if mixed is None else mixed + total
        assert mixed is not None
        y: Tensor = self.o(mixed.reshape(x.shape[0], spec.hidden_size, -1).transpose(1, 2))
        return y
