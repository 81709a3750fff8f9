"""Outputs of the original in the transformers library for images among tokens."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from txexport.contracts.names import IMAGE_FEATURES, INPUTS_EMBEDS, PIXEL_VALUES
from txexport.verification.references.originals import Arrays


def by_prompt(images: Mapping[str, Tensor], tiled: bool) -> dict[str, Tensor]:
    """The images of a prompt as the original reads them: of a `tiled` one with an axis of prompts."""
    return {name: value[None] if tiled else value for name, value in images.items()}


def pictured(model: Any, input_ids: Tensor, images: Mapping[str, Tensor]) -> Arrays:
    """The vectors of tokens (S,W), and those (I,N,W) that stand for images, if there are any."""
    result = {INPUTS_EMBEDS: model.get_input_embeddings()(input_ids)[0].numpy()}
    if images:
        vectors = torch.cat([*model.get_image_features(**images).pooler_output])  # (I*N, W)
        pixels = images[PIXEL_VALUES]
        result[IMAGE_FEATURES] = vectors.unflatten(0, (pixels.shape[:-3].numel(), -1)).numpy()
    return result
