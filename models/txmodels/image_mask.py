"""Masks of cross-attention to images: which tokens see which tiles (Alayrac et al. 2022, 2.3)."""

import torch
from torch import Tensor


def image_mask(
    tiles: int, vectors: int, image_spans: Tensor, positions: Tensor, k: Tensor
) -> tuple[Tensor, Tensor]:
    """Of tokens at `positions` (B,S): the mask (B,S,E), and whether a token sees an image (B,S,1).

    image_spans (B,I,3) has the first place that sees an image, the place that no longer does, and the number
    of its tiles, 0 for no image. An image has `tiles` tiles of `vectors` vectors each, among the keys k
    (B,K,E,H). A token that sees no image attends to all tiles of all images, padding too, as in the original.
    """
    first, end, count = image_spans[:, None].unbind(-1)  # (B, 1, I) each
    queries, real = positions[:, :, None], count > 0
    inside = (first <= queries) & (queries < end) & real  # (B, S, I)
    sees = inside.any(dim=2, keepdim=True)  # (B, S, 1)
    numbers = torch.arange(tiles, device=positions.device)
    some = inside[..., None] & (numbers < count[..., None])  # (B, S, I, T)
    every = ~sees[..., None] & real[..., None]  # (B, S, I, 1)
    seen = (some | every).flatten(2).repeat_interleave(vectors, dim=2)  # (B, S, I*T*V)
    mask = torch.nn.functional.pad(seen, (0, k.shape[2] - seen.shape[2]))  # (B, S, E)
    return mask, sees
