"""Maps of an image as places, the best of them as first boxes, and what changes the boxes."""

import torch
from torch import Tensor, nn

from txexport.spec import GroundedSpec, GroupNormSpec
from txmodels.group_norm import GroupNorm
from txmodels.heads._transform import dense_layers
from txmodels.heads.boxes import perceptron
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.phrases import number_sines

SIDE, EDGE = 0.05, 0.01  # of the first boxes of the finest map; nearer to an edge there are none
LARGE = 3.0e38  # a logit of 1
LEAST = 1e-5  # of a share of the image that has a logit


class MapLevel(nn.Module):
    """A map in the width of places, or with `halved` one of half of its rows and columns."""

    def __init__(self, size: int, norm: GroupNormSpec, halved: bool):
        super().__init__()
        kernel, stride = (3, 2) if halved else (1, 1)
        self.convolution = nn.Conv2d(size, norm.size, kernel, stride, kernel // 2)
        self.norm = GroupNorm(norm)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,F) -> y (B,R,C,W), or (B,R/2,C/2,W)."""
        convolved = self.convolution(x.permute(0, 3, 1, 2))  # (B, W, R, C)
        y: Tensor = self.norm(convolved).permute(0, 2, 3, 1)
        return y


def place_points(real: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Places of the image (B,R,C) -> points (B,R*C,2) as shares of it, and its share of the map (B,1,2).

    Columns are first. The numbers are of the type of `like`.
    """
    rows, columns = real.shape[1:]
    counts = torch.stack([real[:, 0].sum(1), real[:, :, 0].sum(1)], dim=1)[:, None].to(like)  # (B, 1, 2)
    down, across = (torch.arange(n, device=real.device).to(like) + 0.5 for n in (rows, columns))
    pairs = across[None].expand(rows, -1), down[:, None].expand(-1, columns)
    points = torch.stack(pairs, dim=2).flatten(0, 1) / counts  # (B, R*C, 2)
    shares = counts / torch.tensor([columns, rows], device=real.device).to(like)
    return points, shares


def place_boxes(points: Tensor, real: Tensor, side: Tensor) -> tuple[Tensor, Tensor]:
    """points (B,S,2), which are of the image (B,S), a side () -> logits (B,S,4), and which have one (B,S)."""
    boxes = torch.cat([points, side.to(points).expand_as(points)], dim=2)  # (B, S, 4)
    inside = ((boxes > EDGE) & (boxes < 1 - EDGE)).all(2) & real  # (B, S)
    logits = torch.where(inside[:, :, None], torch.log(boxes / (1 - boxes)), LARGE)
    return logits, inside


class FirstBoxes(nn.Module):
    """The boxes of the places that are likest to a token (Liu et al. 2023, 3.2)."""

    def __init__(self, spec: GroundedSpec):
        super().__init__()
        self.queries, width = spec.queries, spec.hidden_size
        self.vector = Linear(width, width)
        self.norm = Norm(spec.norm)
        self.box = dense_layers(width, spec.box_layers, 4)

    def forward(self, image: Tensor, text: Tensor, anchors: Tensor, inside: Tensor, tokens: Tensor) -> Tensor:
        """image (B,P,W), text (B,S,W), anchors (B,P,4), inside (B,P), tokens (B,S) -> boxes (B,Q,4)."""
        vectors = self.norm(self.vector(image.masked_fill(~inside[:, :, None], 0)))  # (B, P, W)
        products = token_products(vectors, text, tokens)  # (B, P, S)
        best = products.amax(2).topk(self.queries).indices[..., None]  # (B, Q, 1)
        chosen = torch.gather(vectors, 1, best.expand(-1, -1, vectors.shape[2]))  # (B, Q, W)
        first = torch.gather(anchors, 1, best.expand(-1, -1, 4))  # (B, Q, 4)
        boxes = torch.sigmoid(perceptron(self.box, chosen) + first)
        return boxes


class LevelPositions(nn.Module):
    """Boxes as positions of queries (Liu et al. 2022, 4.2)."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList([Linear(2 * width, width), Linear(width, width)])

    def forward(self, references: Tensor) -> Tensor:
        """references (B,Q,L,4) -> positions (B,Q,W), of the finest level's."""
        first = references[:, :, 0][:, :, [1, 0, 2, 3]]  # (B, Q, 4)
        positions = perceptron(self.layers, number_sines(self.width // 2, first))
        return positions


class BoxMove(nn.Module):
    """Boxes that are changed (Zhu et al. 2021, A.4)."""

    def __init__(self, width: int, layers: int):
        super().__init__()
        self.layers = dense_layers(width, layers, 4)

    def forward(self, x: Tensor, references: Tensor) -> Tensor:
        """x (B,Q,W), references (B,Q,4) -> boxes (B,Q,4)."""
        boxes = moved(perceptron(self.layers, x), references)
        return boxes


def moved(change: Tensor, references: Tensor) -> Tensor:
    """Changes of logits, boxes (B,Q,4) -> boxes; none is nearer than LEAST to 0 or 1."""
    within = references.clamp(LEAST, 1 - LEAST)
    boxes = torch.sigmoid(change + torch.log(within / (1 - within)))
    return boxes


def token_products(x: Tensor, text: Tensor, tokens: Tensor) -> Tensor:
    """x (B,Q,W), text (B,S,W), tokens (B,S) -> products (B,Q,S), -inf where there is no token."""
    y = (x @ text.mT).masked_fill(~tokens[:, None], -torch.inf)  # (B, Q, S)
    return y


def token_scores(length: int, x: Tensor, text: Tensor, tokens: Tensor) -> Tensor:
    """Queries x (B,Q,W), text (B,S,W), tokens (B,S) -> logits (B,Q,length), -inf where there is no token."""
    products = token_products(x, text, tokens)  # (B, Q, S)
    logits = nn.functional.pad(products, (0, length - text.shape[1]), value=-torch.inf)
    return logits
