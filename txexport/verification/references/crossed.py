"""Outputs of the original in the transformers library for images that a decoder attends to."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from txexport.contracts import cache_names
from txexport.contracts.names import ASPECT_RATIO_MASK, IMAGE_FEATURES
from txexport.spec import CrossVisionLanguageSpec, ModelSpec
from txexport.verification.references.reference import Arrays

MASK = "cross_attention_mask"


def with_image_mask(images: dict[str, Tensor], input_ids: Tensor, spec: ModelSpec) -> dict[str, Tensor]:
    """The images of a prompt (1,S) with an axis of prompts, and the mask that the processor makes of both.

    Unchanged where no decoder attends to them.
    """
    if not isinstance(spec, CrossVisionLanguageSpec) or not images:
        return images
    from transformers.models.mllama import processing_mllama as processing

    spans = processing.get_cross_attention_token_mask(input_ids[0].tolist(), spec.image_token_id)
    tiles = images[ASPECT_RATIO_MASK].sum(dim=1).tolist()
    most, length = spec.vision.embedding.tiles, input_ids.shape[1]
    mask = processing.convert_sparse_cross_attention_mask_to_dense([spans], [tiles], most, length)
    return {name: value[None] for name, value in images.items()} | {MASK: torch.from_numpy(mask)}


def attended(model: Any, spec: ModelSpec, images: Mapping[str, Tensor], caches: dict[str, Tensor]) -> Arrays:
    """The vectors (I,N,W) of images, and their keys and values (I,K,N,H), which `caches` has no longer.

    Nothing where no decoder attends to images.
    """
    if not isinstance(spec, CrossVisionLanguageSpec) or not images:
        return {}
    inner = getattr(model, "model", model)
    read = {name: value for name, value in images.items() if name != MASK}
    states = inner.vision_model(**read).last_hidden_state  # (1, I, T, vectors, W')
    features = inner.multi_modal_projector(states).flatten(2, 3)[0]
    result = {IMAGE_FEATURES: features.numpy()}
    for layer in spec.crossed:
        labels = cache_names.present(layer, cache_names.ENCODER)
        for name, name_of_cache in zip(labels, cache_names.present(layer), strict=True):
            keys = caches.pop(name_of_cache)[0].unflatten(1, (len(features), -1))  # (K, I, N, H)
            result[name] = keys.transpose(0, 1).numpy()
    return result
