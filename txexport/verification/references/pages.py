"""Outputs of the original in the transformers library for pages and queries of late interaction."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from txexport.contracts.names import (
    ATTENTION_MASK,
    EMBEDDINGS,
    IMAGE_FEATURES,
    IMAGE_GRIDS,
    INPUT_IDS,
    PIXEL_VALUES,
    TOKEN_TYPE_IDS,
)
from txexport.spec import VisualRetrieverSpec


def paged(model: Any, inputs: Mapping[str, Tensor], spec: VisualRetrieverSpec) -> dict[str, Tensor]:
    """The vectors (B,S,D) of tokens, and those (N,W) of images, if there are any.

    Inputs are those of the original's processor: ColPali's tokens all have type 0, which makes its attention
    bidirectional, and images are padded to the most patches of one.
    """
    ids = inputs[INPUT_IDS]
    images = {name: value for name, value in inputs.items() if name not in (INPUT_IDS, ATTENTION_MASK)}
    read = dict(images)
    if IMAGE_GRIDS in images:
        counts = images[IMAGE_GRIDS].prod(1).tolist()
        read[PIXEL_VALUES] = pad_sequence([*images[PIXEL_VALUES].split(counts)], batch_first=True)
    kinds = {} if spec.text.causal else {TOKEN_TYPE_IDS: torch.zeros_like(ids)}
    result = {
        EMBEDDINGS: model(input_ids=ids, attention_mask=inputs[ATTENTION_MASK], **read, **kinds).embeddings
    }
    if images:
        features = model.vlm.get_image_features(**images).pooler_output
        result[IMAGE_FEATURES] = torch.cat([*features])
    return result
