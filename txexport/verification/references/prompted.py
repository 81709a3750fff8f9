"""Outputs of the original in the transformers library for prompts of masks."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from txexport.contracts.names import (
    IMAGE_EMBEDDINGS,
    IMAGE_MAPS,
    IMAGE_POSITIONS,
    IOU_SCORES,
    OBJECT_SCORES,
    PIXEL_VALUES,
    PRED_MASKS,
)
from txexport.verification.references.reference import Arrays


def prompted(model: Any, inputs: Mapping[str, Tensor]) -> Arrays:
    """The encoded images, and the mask for clear prompts before the others, with their scores."""
    image = model.get_image_embeddings(inputs[PIXEL_VALUES])
    prompts = {name: value for name, value in inputs.items() if name != PIXEL_VALUES}
    clear, several = (
        model(image_embeddings=image, multimask_output=several, **prompts) for several in (False, True)
    )
    result = {name: torch.cat([clear[name], several[name]], dim=2) for name in (IOU_SCORES, PRED_MASKS)}
    if isinstance(image, Tensor):
        positions = model.get_image_wide_positional_embeddings()
        result |= {IMAGE_EMBEDDINGS: image, IMAGE_POSITIONS: positions.expand(len(image), -1, -1, -1)}
    else:
        result |= {OBJECT_SCORES: clear[OBJECT_SCORES], **dict(zip(IMAGE_MAPS, image, strict=True))}
    return {name: value.numpy() for name, value in result.items()}
