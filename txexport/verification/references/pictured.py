"""Outputs of the original in the transformers library for images among tokens."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from txexport.contracts.names import IMAGE_FEATURES, INPUTS_EMBEDS
from txexport.verification.references.originals import Arrays


def pictured(model: Any, input_ids: Tensor, images: Mapping[str, Tensor]) -> Arrays:
    """The vectors of tokens (S,W), and those (I,N,W) that stand for images, if there are any."""
    result = {INPUTS_EMBEDS: model.get_input_embeddings()(input_ids)[0].numpy()}
    if images:
        vectors = model.get_image_features(**images).pooler_output
        result[IMAGE_FEATURES] = torch.stack([*vectors]).numpy()
    return result
