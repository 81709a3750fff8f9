"""Masks of an image for prompts, and scores of them."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import MaskDecoderSpec
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
        width, self.masks = spec.layers.hidden_size, spec.masks
        self.no_mask = nn.Embedding(1, width)
        self.score_token = nn.Embedding(1, width)
        self.mask_tokens = nn.Embedding(spec.masks, width)
        self.layers = TwoWay(spec.layers)
        self.upscale = nn.ConvTranspose2d(width, width // 4, 2, 2)
        self.upscale_norm = Norm(spec.norm)
        self.upscale_again = nn.ConvTranspose2d(width // 4, width // 8, 2, 2)
        self.vectors = nn.ModuleList(_Perceptron(width, width, width, width // 8) for _ in range(spec.masks))
        between = [spec.score_size] * (spec.score_layers - 1)
        self.score = _Perceptron(width, *between, spec.masks)

    def forward(self, image: Tensor, positions: Tensor, prompts: Tensor) -> tuple[Tensor, Tensor]:
        """image and positions (B,W,R,C), prompts (B,P,N,W) -> masks (B,P,M,4R,4C), scores (B,P,M)."""
        (count, groups), (rows, columns) = prompts.shape[:2], image.shape[2:]
        learned = torch.cat([self.score_token.weight, self.mask_tokens.weight])
        first = learned.expand(count, groups, -1, -1)
        tokens = torch.cat([first, prompts], dim=2).flatten(0, 1)  # (B*P, T, W)
        plain = (image + self.no_mask.weight[..., None, None])[:, None].expand(-1, groups, -1, -1, -1)
        cells = positions[:, None].expand_as(plain)
        x, y = self.layers(
            tokens, plain.flatten(0, 1).flatten(2).mT, cells.flatten(0, 1).flatten(2).mT
        )  # (B*P, T, W), (B*P, S, W)
        features = self.upscale(y.mT.unflatten(2, (rows, columns)))  # (B*P, W/4, 2R, 2C)
        features = F.gelu(self.upscale_norm(features.permute(0, 2, 3, 1)).permute(0, 3, 1, 2))
        features = F.gelu(self.upscale_again(features))  # (B*P, W/8, 4R, 4C)
        vectors = torch.stack([net(x[:, 1 + mask]) for mask, net in enumerate(self.vectors)], dim=1)
        products = (vectors @ features.flatten(2)).unflatten(2, features.shape[2:])
        masks = products.unflatten(0, (count, groups))
        scores: Tensor = self.score(x[:, 0]).unflatten(0, (count, groups))
        return masks, scores
