"""Outputs of the original in the transformers library for images among tokens."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from txexport.contracts.names import IMAGE_FEATURES, INPUTS_EMBEDS, PIXEL_VALUES, POSITION_IDS, TOKEN_TYPE_IDS
from txexport.spec import ModelSpec, Mutual, VisionLanguageSpec
from txexport.verification.references.originals import Arrays


def by_prompt(images: Mapping[str, Tensor], spec: ModelSpec) -> dict[str, Tensor]:
    """The images of a prompt as the original reads them: tiles with an axis of prompts."""
    tiled = isinstance(spec, VisionLanguageSpec) and spec.tiled
    return {name: value[None] if tiled else value for name, value in images.items()}


def kinds(input_ids: Tensor, spec: ModelSpec, prompt: int | None) -> dict[str, Tensor]:
    """The types of tokens by which an original tells those that attend to each other.

    They are those of images, or the first `prompt` tokens, None for all. In the latter case positions are
    counted from 0: the original counts from 1, and differs in rotated keys alone.
    """
    if not isinstance(spec, VisionLanguageSpec) or spec.mutual is None:
        return {}
    if spec.mutual == Mutual.IMAGE:
        return {TOKEN_TYPE_IDS: (input_ids == spec.image_token_id).long()}
    positions = torch.arange(input_ids.shape[1])[None]
    later = positions >= (input_ids.shape[1] if prompt is None else prompt)
    return {TOKEN_TYPE_IDS: later.long(), POSITION_IDS: positions}


def pictured(model: Any, input_ids: Tensor, images: Mapping[str, Tensor], **arguments: bool) -> Arrays:
    """The vectors of tokens (S,W), and those (I,N,W) that stand for images, if there are any.

    `arguments` are further ones of the original's image encoder.
    """
    result = {INPUTS_EMBEDS: model.get_input_embeddings()(input_ids)[0].numpy()}
    if images:
        vectors = torch.cat([*model.get_image_features(**images, **arguments).pooler_output])  # (I*N, W)
        pixels = images[PIXEL_VALUES]
        result[IMAGE_FEATURES] = vectors.unflatten(0, (pixels.shape[:-3].numel(), -1)).numpy()
    return result
