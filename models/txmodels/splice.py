"""Vectors of images in the places of the tokens that stand for them."""

import torch
from torch import Tensor


def spliced(image_token_id: int, x: Tensor, input_ids: Tensor, image_features: Tensor) -> Tensor:
    """x (B,S,W), input_ids (B,S), image_features (N,W) -> y (B,S,W), x with features in their order.

    The first N tokens `image_token_id`, row by row, have the features; a later one keeps its own vector.
    """
    flat = (input_ids == image_token_id).flatten()  # (B*S)
    order = flat.cumsum(0) - 1
    count = len(image_features)
    taken = flat & (order < count)  # (B*S)
    last = torch.cat([image_features, image_features.new_zeros(1, image_features.shape[1])])  # (N+1, W)
    index = torch.where(taken, order, count)
    y = torch.where(taken[:, None], last[index], x.flatten(0, 1)).view_as(x)
    return y
