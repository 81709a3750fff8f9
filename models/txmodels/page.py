"""Words in their boxes on a page, and patches of its image (Xu et al. 2020, 3; Huang et al. 2022, 3.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import BoxTablesSpec, PageBiasSpec, PageImageSpec
from txmodels.inputs.patches import PatchEmbedding
from txmodels.norm import Norm
from txmodels.position import RelativeBias


class BoxTables(nn.Module):
    """Learned vectors of a box's edges, height and width, joined or added (Xu et al. 2020, 3.2)."""

    def __init__(self, spec: BoxTablesSpec):
        super().__init__()
        self.joined, self.longest = spec.joined, spec.longest
        self.x = nn.Embedding(spec.rows, spec.edge_size)
        self.y = nn.Embedding(spec.rows, spec.edge_size)
        self.height = nn.Embedding(spec.rows, spec.extent_size)
        self.width = nn.Embedding(spec.rows, spec.extent_size)

    def forward(self, boxes: Tensor) -> Tensor:
        """boxes (B,S,4): left, top, right, bottom -> y (B,S,W)."""
        left, top, right, bottom = boxes.unbind(2)  # (B, S)
        height, width = bottom - top, right - left
        if self.longest is not None:
            height, width = height.clamp(0, self.longest), width.clamp(0, self.longest)
        edges = [self.x(left), self.y(top), self.x(right), self.y(bottom)]
        parts = [*edges, self.height(height), self.width(width)]
        y = torch.cat(parts, dim=2) if self.joined else torch.stack(parts).sum(0)  # (B, S, W)
        return y


class PageImage(nn.Module):
    """Patches of a page's image after its tokens, and a norm of both (Huang et al. 2022, 3.1)."""

    def __init__(self, spec: PageImageSpec):
        super().__init__()
        self.patches, self.norm = PatchEmbedding(spec.patches), Norm(spec.norm)

    def forward(self, x: Tensor, pixel_values: Tensor) -> Tensor:
        """x (B,S,W), pixel_values (B,channels,height,width) -> y (B,S+P,W)."""
        y: Tensor = self.norm(torch.cat([x, self.patches(pixel_values)], dim=1))
        return y


def with_patches(
    spec: PageImageSpec, attention_mask: Tensor, boxes: Tensor, order: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of the patches behind the tokens: all are real, in places of the page, counted from 0.

    attention_mask (B,S), boxes (B,S,4), order (1,S) -> (B,S+P), (B,S+P,4), (1,S+P).
    """
    fixed = torch.tensor(spec.boxes, device=boxes.device)  # (P, 4)
    rows, count = len(boxes), len(fixed)
    mask = torch.cat([attention_mask, attention_mask.new_ones(rows, count)], dim=1)
    every = torch.cat([boxes, fixed.expand(rows, -1, -1)], dim=1)
    orders = torch.cat([order, torch.arange(count, device=order.device)[None]], dim=1)
    return mask, every, orders


class PageBias(nn.Module):
    """Learned biases for how far apart tokens are on a page (Huang et al. 2022, 3.1)."""

    def __init__(self, spec: PageBiasSpec, num_heads: int):
        super().__init__()
        self.scale = spec.scale
        self.order = RelativeBias(spec.order, num_heads)
        self.left = None if spec.edges is None else RelativeBias(spec.edges, num_heads)
        self.bottom = None if spec.edges is None else RelativeBias(spec.edges, num_heads)

    def forward(self, order: Tensor, boxes: Tensor) -> Tensor:
        """order (1,S), boxes (B,S,4) -> bias (B,N,S,S), or (1,N,S,S) without edges."""
        bias: Tensor = self.order(order, order)  # (1, N, S, S)
        if self.left is not None and self.bottom is not None:
            left, bottom = boxes[:, :, 0], boxes[:, :, 3]  # (B, S)
            bias = bias + self.left(left, left) + self.bottom(bottom, bottom)
        bias = bias * self.scale
        return bias
