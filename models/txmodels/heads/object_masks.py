"""Labels, boxes and masks of an image's objects, the masks from attention (Carion et al. 2020, 4.4)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec, ObjectMasksSpec
from txexport.spec.object_masks import BOX_LAYERS
from txmodels.activation import activation
from txmodels.group_norm import GroupNorm
from txmodels.heads.boxes import perceptron
from txmodels.linear import Linear
from txmodels.pixel_pyramid import NormedConvolution, nearest


class AttentionMaps(nn.Module):
    """The weight of each place for each query and head; those of a query add up to 1 over all heads."""

    def __init__(self, spec: ObjectMasksSpec):
        super().__init__()
        self.num_heads = spec.num_heads
        self.q = Linear(spec.hidden_size, spec.hidden_size)
        self.k = Linear(spec.hidden_size, spec.hidden_size)

    def forward(self, queries: Tensor, image: Tensor, real: Tensor) -> Tensor:
        """queries (B,Q,W), image (B,S,W), which places are of it (B,R,C) -> weights (B,Q,N,R,C)."""
        q = self.q(queries).unflatten(2, (self.num_heads, -1)).transpose(1, 2)  # (B, N, Q, H)
        k = self.k(image).unflatten(2, (self.num_heads, -1)).permute(0, 2, 3, 1)  # (B, N, H, S)
        scores = (q * q.shape[3] ** -0.5 @ k).transpose(1, 2)  # (B, Q, N, S)
        weights = places_of_all_heads(scores, real)
        return weights


class ObjectMasksHead(nn.Module):
    """Scores of labels, a box and a mask for each query (Carion et al. 2020, 3.2 and 4.4)."""

    def __init__(self, spec: HeadSpec):
        super().__init__()
        assert spec.object_masks is not None
        masks, width = spec.object_masks, spec.object_masks.hidden_size
        first, second, *others = masks.norms
        self.width, self.act = width, activation(masks.activation)
        self.classes = Linear(width, spec.labels)
        self.box = nn.ModuleList(
            Linear(width, 4 if n == BOX_LAYERS - 1 else width) for n in range(BOX_LAYERS)
        )
        self.attention = AttentionMaps(masks)
        self.join = nn.Conv2d(masks.joined, masks.joined, 3, padding=1)
        self.join_norm = GroupNorm(first)
        self.reduce = NormedConvolution(masks.joined, 3, second, True)
        pairs = list(zip(reversed(masks.sizes), masks.channels, strict=False))
        self.sides = nn.ModuleList(nn.Conv2d(size, channels, 1) for size, channels in pairs)
        self.convolutions = nn.ModuleList(
            NormedConvolution(channels, 3, norm, True)
            for (_, channels), norm in zip(pairs, others, strict=True)
        )
        self.project = nn.Conv2d(masks.channels[-1], 1, 3, padding=1)

    def forward(self, queries: Tensor, maps: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """queries (B,Q,W), maps -> logits (B,Q,labels), pred_boxes (B,Q,4), pred_masks (B,Q,R,C).

        maps are those of a network (B,R,C,channels), the finest first, then `grid` (B,r,c,W), `image` (B,S,W)
        after its layers, and `real` (B,r,c). What all queries share is convolved once.
        """
        logits, pred_boxes = self.classes(queries), torch.sigmoid(perceptron(self.box, queries))
        *finer, grid, image, real = maps.values()
        each = self.attention(queries, image, real)  # (B, Q, N, r, c)
        of_image, of_heads = self.join.weight[:, : self.width], self.join.weight[:, self.width :]
        shared = F.conv2d(grid.permute(0, 3, 1, 2), of_image, self.join.bias, padding=1)  # (B, F, r, c)
        joined = F.conv2d(each.flatten(0, 1), of_heads, padding=1)  # (B*Q, F, r, c)
        x = self.act(self.join_norm(of_every_query(joined, shared)))
        x = self.act(self.reduce(x))
        for number, fine in enumerate(reversed(finer)):
            side = self.sides[number](fine.permute(0, 3, 1, 2))
            x = of_every_query(nearest(x, side), side)
            x = self.act(self.convolutions[number](x))
        pred_masks = self.project(x).view(*queries.shape[:2], *x.shape[2:])
        return logits, pred_boxes, pred_masks

    def outputs_of_maps(self, x: Tensor, maps: dict[str, Tensor]) -> dict[str, Tensor]:
        """The graph's outputs: logits (B,Q,labels), pred_boxes (B,Q,4) and pred_masks (B,Q,R,C)."""
        logits, pred_boxes, pred_masks = self(x, maps)
        return {names.LOGITS: logits, names.PRED_BOXES: pred_boxes, names.PRED_MASKS: pred_masks}


def places_of_all_heads(scores: Tensor, real: Tensor) -> Tensor:
    """scores (B,Q,N,S), real (B,R,C) -> weights (B,Q,N,R,C): a softmax over all heads and places."""
    hidden = torch.finfo(scores.dtype).min
    seen = torch.where(real.flatten(1)[:, None, None], scores, hidden)
    weights = seen.flatten(2).softmax(2).unflatten(2, (scores.shape[2], *real.shape[1:]))
    return weights


def of_every_query(x: Tensor, shared: Tensor) -> Tensor:
    """x (B*Q,F,R,C), shared (B,F,R,C) -> their sum for each query (B*Q,F,R,C)."""
    y = (x.unflatten(0, (shared.shape[0], -1)) + shared[:, None]).flatten(0, 1)
    return y


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> ObjectMasksHead:
    """The head of a model's spec."""
    return ObjectMasksHead(spec)
