"""Labels and boxes of an image's objects (Carion et al. 2020, 3.2)."""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec
from txmodels.heads._transform import Tokens
from txmodels.linear import Linear


class BoxesHead(nn.Module):
    """Scores of labels and a box for each of the last vectors, the queries (Carion et al. 2020, 3.2)."""

    def __init__(self, spec: HeadSpec, hidden_size: int):
        super().__init__()
        assert spec.boxes is not None
        self.spec = spec.boxes
        self.scores = _layers(hidden_size, spec.boxes.score_layers, spec.labels)
        self.box = _layers(hidden_size, spec.boxes.box_layers, 4)

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


def _layers(hidden_size: int, layers: int, outputs: int) -> nn.ModuleList:
    return nn.ModuleList(
        Linear(hidden_size, outputs if layer == layers - 1 else hidden_size) for layer in range(layers)
    )


def perceptron(layers: nn.ModuleList, x: Tensor) -> Tensor:
    """x (...,W) through dense layers with ReLU between them."""
    for number, layer in enumerate(layers):
        x = layer(torch.relu(x) if number else x)
    return x


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> BoxesHead:
    """The head of a model's spec."""
    return BoxesHead(spec, hidden_size)
