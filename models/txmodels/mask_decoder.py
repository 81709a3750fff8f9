"""Masks of an image for prompts, and scores of them."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import MaskDecoderSpec, StabilitySpec
from txmodels.heads.boxes import perceptron
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.two_way import TwoWay


class _Perceptron(nn.ModuleList):
    """Dense layers with ReLU between them, their widths from the first input to the last output."""

    def __init__(self, *widths: int):
        super().__init__(Linear(*pair) for pair in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        """x (...,W) -> y (...,size)."""
        return perceptron(self, x)


class MaskDecoder(nn.Module):
    """Logits of masks and their scores, of every group of prompts (Kirillov et al. 2023, A)."""

    def __init__(self, spec: MaskDecoderSpec):
        super().__init__()
        width, self.spec = spec.layers.hidden_size, spec
        self.no_mask = nn.Embedding(1, width)
        self.object_token = nn.Embedding(1, width) if spec.object_score else None
        self.score_token = nn.Embedding(1, width)
        self.mask_tokens = nn.Embedding(spec.masks, width)
        self.layers = TwoWay(spec.layers)
        self.upscale = nn.ConvTranspose2d(width, width // 4, 2, 2)
        self.upscale_norm = Norm(spec.norm)
        self.upscale_again = nn.ConvTranspose2d(width // 4, width // 8, 2, 2)
        self.vectors = nn.ModuleList(_Perceptron(width, width, width, width // 8) for _ in range(spec.masks))
        between = [spec.score_size] * (spec.score_layers - 1)
        self.score = _Perceptron(width, *between, spec.masks)
        self.object = _Perceptron(width, width, width, 1) if spec.object_score else None

    def forward(
        self, image: Tensor, positions: Tensor, prompts: Tensor, **maps: Tensor
    ) -> tuple[Tensor, ...]:
        """image and positions (B,W,R,C), prompts (B,P,N,W) -> masks (B,P,M,4R,4C), scores (B,P,M).

        With object_score, `maps` has finer (B,W/4,2R,2C) and finest (B,W/8,4R,4C) of the image, and objects
        (B,P,1) follow. dense (B,Q,W,R,C) of it is of masks as prompts, where has_masks (B,Q) is 1.
        """
        (count, groups), (rows, columns) = prompts.shape[:2], image.shape[2:]
        tokens_of = [self.score_token, self.mask_tokens]
        tokens_of = tokens_of if self.object_token is None else [self.object_token, *tokens_of]
        learned, first_mask = torch.cat([token.weight for token in tokens_of]), len(tokens_of) - 1
        first = learned.expand(count, groups, -1, -1)
        tokens = torch.cat([first, prompts], dim=2).flatten(0, 1)  # (B*P, T, W)
        no_mask = self.no_mask.weight[..., None, None]  # (1, W, 1, 1)
        if "dense" in maps:
            prompted = torch.where(maps["has_masks"][..., None, None, None] > 0, maps["dense"], no_mask)
            plain = (image[:, None] + prompted).expand(-1, groups, -1, -1, -1)
        else:
            plain = (image + no_mask)[:, None].expand(-1, groups, -1, -1, -1)
        cells = positions[:, None].expand_as(plain)
        x, y = self.layers(
            tokens, plain.flatten(0, 1).flatten(2).mT, cells.flatten(0, 1).flatten(2).mT
        )  # (B*P, T, W), (B*P, S, W)
        features = self.upscale(y.mT.unflatten(2, (rows, columns)))  # (B*P, W/4, 2R, 2C)
        features = of_image(features, maps["finer"]) if self.spec.object_score else features
        features = F.gelu(self.upscale_norm(features.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        features = self.upscale_again(features)  # (B*P, W/8, 4R, 4C)
        features = F.gelu(of_image(features, maps["finest"]) if self.spec.object_score else features)
        vectors = torch.cat([net(x[:, [first_mask + mask]]) for mask, net in enumerate(self.vectors)], dim=1)
        products = (vectors @ features.flatten(2)).unflatten(2, features.shape[2:])
        masks = products.unflatten(0, (count, groups))
        scores: Tensor = self.score(x[:, first_mask - 1]).unflatten(0, (count, groups))
        if self.object is None:
            return masks, scores
        scores, objects = scores.sigmoid(), self.object(x[:, 0]).unflatten(0, (count, groups))
        if self.spec.stability is not None:
            masks, scores = stable_first(self.spec.stability, masks, scores)
        return masks, scores, objects


def of_image(features: Tensor, finer: Tensor) -> Tensor:
    """features (B*P,W,R,C) of every group of prompts, plus the map (B,W,R,C) of its image."""
    y = (features.unflatten(0, (finer.shape[0], -1)) + finer[:, None]).flatten(0, 1)
    return y


def stable_first(spec: StabilitySpec, masks: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """masks (B,P,M,R,C), scores (B,P,M) -> the same, an unstable first one replaced by the likeliest."""
    first = masks[:, :, :1]
    inner = (first > spec.delta).float().sum((3, 4))  # (B, P, 1)
    outer = (first > -spec.delta).float().sum((3, 4))
    stable = torch.where(outer > 0, inner / outer.clamp(min=1), 1.0) >= spec.threshold
    best = scores[:, :, 1:].argmax(dim=2, keepdim=True)  # (B, P, 1)
    likeliest = torch.take_along_dim(masks[:, :, 1:], best[..., None, None], dim=2)
    score = torch.where(stable, scores[:, :, :1], scores[:, :, 1:].gather(2, best))
    mask = torch.where(stable[..., None, None], first, likeliest)
    return torch.cat([mask, masks[:, :, 1:]], dim=2), torch.cat([score, scores[:, :, 1:]], dim=2)
