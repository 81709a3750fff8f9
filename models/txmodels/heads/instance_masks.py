"""Labels, boxes and masks of an image's objects, the masks of a map's places (Robinson et al. 2025, 3)."""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec, InstanceMasksSpec
from txmodels.activation import activation
from txmodels.bilinear import bilinear
from txmodels.feedforward import FeedForward
from txmodels.heads._transform import dense_layers
from txmodels.heads.boxes import perceptron, refined, scaled
from txmodels.linear import Linear
from txmodels.norm import Norm


class PlacesBlock(nn.Module):
    """A convolution of each channel alone, a norm, a projection and an activation, added to a map."""

    def __init__(self, spec: InstanceMasksSpec):
        super().__init__()
        width = spec.hidden_size
        self.each = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = Norm(spec.map_norm)
        self.point = Linear(width, width)
        self.activation = activation(spec.activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,W,R,C) -> y (B,W,R,C)."""
        normed = self.norm(self.each(x).permute(0, 2, 3, 1))  # (B, R, C, W)
        y: Tensor = self.activation(self.point(normed)).permute(0, 3, 1, 2) + x
        return y


class InstanceMasksHead(nn.Module):
    """Scores of labels, a change of the box and a mask for each query (Robinson et al. 2025, 3)."""

    def __init__(self, spec: HeadSpec):
        super().__init__()
        assert spec.instance_masks is not None
        masks, width = spec.instance_masks, spec.instance_masks.hidden_size
        self.ratio, self.change = masks.ratio, scaled if masks.boxes.scaled else refined
        self.scores = dense_layers(width, masks.boxes.score_layers, spec.labels)
        self.box = dense_layers(width, masks.boxes.box_layers, 4)
        self.blocks = nn.ModuleList(PlacesBlock(masks) for _ in range(masks.blocks))
        self.places = nn.Conv2d(width, width, 1)
        self.norm, self.network = Norm(masks.norm), FeedForward(masks.network)
        self.query = Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, queries: Tensor, maps: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """queries (B,Q,W), maps -> logits (B,Q,labels), pred_boxes (B,Q,4), pred_masks (B,Q,R,C).

        maps are `boxes` (B,Q,4), the image's `level` (B,r,c,W), and its pixels.
        """
        boxes, level, pixels = maps.values()
        logits, pred_boxes = (
            perceptron(self.scores, queries),
            self.change(perceptron(self.box, queries), boxes),
        )
        size = torch.tensor(pixels.shape[2:], device="cpu") // self.ratio
        x = bilinear(level.permute(0, 3, 1, 2), size)  # (B, W, R, C)
        for block in self.blocks:
            x = block(x)
        cells = self.places(x).flatten(2)  # (B, W, R*C)
        vectors = self.query(queries + self.network(self.norm(queries)))  # (B, Q, W)
        pred_masks = (vectors @ cells).unflatten(2, x.shape[2:]) + self.bias
        return logits, pred_boxes, pred_masks

    def outputs_of_maps(self, x: Tensor, maps: dict[str, Tensor]) -> dict[str, Tensor]:
        """The graph's outputs: logits (B,Q,labels), pred_boxes (B,Q,4) and pred_masks (B,Q,R,C)."""
        logits, pred_boxes, pred_masks = self(x, maps)
        return {names.LOGITS: logits, names.PRED_BOXES: pred_boxes, names.PRED_MASKS: pred_masks}


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> InstanceMasksHead:
    """The head of a model's spec."""
    return InstanceMasksHead(spec)
