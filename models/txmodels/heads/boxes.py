"""Labels and boxes of an image's objects (Carion et al. 2020, 3.2)."""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec
from txmodels.edges import edge_shares
from txmodels.heads._transform import Tokens, dense_layers
from txmodels.linear import Linear

LEAST = 1e-5  # of a share of the image that has a logit


class BoxesHead(nn.Module):
    """Scores of labels and a box for each of the last vectors, the queries (Carion et al. 2020, 3.2)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__()
        assert spec.boxes is not None
        self.spec = spec.boxes
        self.scores = dense_layers(hidden_size, spec.boxes.score_layers, spec.labels)
        self.box = dense_layers(hidden_size, spec.boxes.box_layers, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,S,W) -> logits (B,Q,labels), pred_boxes (B,Q,4)."""
        queries = x[:, -self.spec.queries :]  # (B, Q, W)
        logits = perceptron(self.scores, queries)
        pred_boxes = torch.sigmoid(perceptron(self.box, queries))
        return logits, pred_boxes

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: logits (B,Q,labels) and pred_boxes (B,Q,4)."""
        logits, pred_boxes = self(x)
        return {names.LOGITS: logits, names.PRED_BOXES: pred_boxes}


class RefinedBoxesHead(nn.Module):
    """Scores of labels, and changes of the boxes that queries come with (Zhu et al. 2021, A.4)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__()
        assert spec.boxes is not None
        self.change = scaled if spec.boxes.scaled else refined
        self.scores = dense_layers(hidden_size, spec.boxes.score_layers, spec.labels)
        self.box = dense_layers(hidden_size, spec.boxes.box_layers, 4)

    def forward(self, x: Tensor, references: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,Q,W), references (B,Q,4) -> logits (B,Q,labels), pred_boxes (B,Q,4)."""
        logits = perceptron(self.scores, x)
        pred_boxes = self.change(perceptron(self.box, x), references)
        return logits, pred_boxes

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: logits (B,Q,labels) and pred_boxes (B,Q,4); references in the mask's place."""
        _, references = tokens
        assert references is not None
        logits, pred_boxes = self(x, references)
        return {names.LOGITS: logits, names.PRED_BOXES: pred_boxes}


class QualityBoxesHead(nn.Module):
    """Scores of labels plus a quality from the distributions of edges (Peng et al. 2024, A.1)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__()
        assert spec.boxes is not None
        assert spec.boxes.quality is not None
        self.spec = spec.boxes.quality
        self.scores = dense_layers(hidden_size, spec.boxes.score_layers, spec.labels)
        self.quality = nn.ModuleList(Linear(*sizes) for sizes in self.spec.sizes)

    def forward(self, x: Tensor, references: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,Q,W), boxes and scores of edges (B,Q,4+4*(bins+1)) -> logits (B,Q,labels), boxes (B,Q,4)."""
        pred_boxes, edges = references[:, :, :4], references[:, :, 4:]
        best = edge_shares(self.spec.edges.bins, edges).topk(self.spec.best, dim=3).values  # (B, Q, 4, best)
        numbers = torch.cat([best, best.mean(3, keepdim=True)], dim=3).flatten(2)  # (B, Q, 4*(best+1))
        logits = perceptron(self.scores, x) + perceptron(self.quality, numbers)
        return logits, pred_boxes

    def outputs(self, x: Tensor, tokens: Tokens, word: Tensor | None) -> dict[str, Tensor]:
        """The graph's outputs: logits (B,Q,labels) and pred_boxes (B,Q,4); references in the mask's place."""
        _, references = tokens
        assert references is not None
        logits, pred_boxes = self(x, references)
        return {names.LOGITS: logits, names.PRED_BOXES: pred_boxes}


def refined(change: Tensor, references: Tensor) -> Tensor:
    """Changes of logits, boxes (B,Q,4) -> boxes."""
    within = references.clamp(0, 1)
    logits = torch.log(within.clamp(min=LEAST) / (1 - within).clamp(min=LEAST))
    boxes = torch.sigmoid(change + logits)
    return boxes


def scaled(change: Tensor, references: Tensor) -> Tensor:
    """Changes as shares of a box's sides and as logarithms of factors, boxes (B,Q,4) -> boxes.

    Girshick et al. 2014, C.
    """
    moves, factors = change.split(2, dim=-1)
    centre, sides = references.split(2, dim=-1)  # (B, Q, 2)
    boxes = torch.cat([moves * sides + centre, factors.exp() * sides], dim=-1)
    return boxes


def perceptron(layers: nn.ModuleList, x: Tensor) -> Tensor:
    """x (...,W) through dense layers with ReLU between them."""
    for number, layer in enumerate(layers):
        x = layer(torch.relu(x) if number else x)
    return x


def head(
    spec: HeadSpec, hidden_size: int, vocab_size: int
) -> BoxesHead | RefinedBoxesHead | QualityBoxesHead:
    """The head of a model's spec."""
    assert spec.boxes is not None
    if spec.boxes.quality is not None:
        return QualityBoxesHead(spec, hidden_size)
    return RefinedBoxesHead(spec, hidden_size) if spec.boxes.refined else BoxesHead(spec, hidden_size)
