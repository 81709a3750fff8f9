"""Outputs of the original in the transformers library for images or sounds among tokens."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from txexport.contracts.names import (
    ATTENTION_MASK,
    AUDIO_FEATURES,
    FEATURE_ATTENTION_MASK,
    GRIDS,
    IMAGE_FEATURES,
    IMAGE_GRIDS,
    IMAGE_SIZES,
    INPUT_FEATURES,
    INPUT_IDS,
    INPUTS_EMBEDS,
    PIXEL_VALUES,
    POSITION_IDS,
    SPATIAL_SHAPES,
    TOKEN_TYPE_IDS,
)
from txexport.spec import ModelSpec, Mutual, VisionLanguageSpec
from txexport.verification.references.reference import Arrays, PicturedTokens, Source

OTHER_MASK = "input_features_mask"  # of Audio Flamingo 3


def by_prompt(images: Mapping[str, Tensor], spec: ModelSpec, model: Any) -> dict[str, Tensor]:
    """The images or sounds of a prompt as the original reads them: tiles with an axis of prompts.

    Grids, and the mask of a sound's frames, have the names of its forward.
    """
    tiled = isinstance(spec, VisionLanguageSpec) and spec.tiled
    renamed = {GRIDS: IMAGE_GRIDS}
    if OTHER_MASK in inspect.signature(model.forward).parameters:
        renamed[FEATURE_ATTENTION_MASK] = OTHER_MASK
    if isinstance(spec, VisionLanguageSpec) and spec.mosaic is not None and images:
        read = {PIXEL_VALUES: images[PIXEL_VALUES], IMAGE_SIZES: images[IMAGE_SIZES]}
        several = (
            {} if spec.mosaic.most is None else {"batch_num_images": torch.tensor([len(read[IMAGE_SIZES])])}
        )
        return read | several
    return {renamed.get(name, name): value[None] if tiled else value for name, value in images.items()}


def kinds(
    input_ids: Tensor, spec: ModelSpec, images: Mapping[str, Tensor], prompt: int | None
) -> dict[str, Tensor]:
    """The types of tokens by which an original tells those of images, or the first `prompt`, None for all.

    It needs them where these attend to each other, and where positions count rows and columns of images. For
    those of prompts, positions are counted from 0: the original counts from 1, and differs in rotated keys
    alone.
    """
    if not isinstance(spec, VisionLanguageSpec):
        return {}
    if spec.mutual == Mutual.PREFIX:
        positions = torch.arange(input_ids.shape[1])[None]
        later = positions >= (input_ids.shape[1] if prompt is None else prompt)
        return {TOKEN_TYPE_IDS: later.long(), POSITION_IDS: positions}
    of_images = (input_ids == spec.image_token_id).long()
    if spec.mutual:
        return {TOKEN_TYPE_IDS: of_images}
    return {"mm_token_type_ids": of_images} if spec.axes and images else {}


def pictured(model: Any, input_ids: Tensor, images: Mapping[str, Tensor], **arguments: bool) -> Arrays:
    """The vectors of tokens (S,W), and those (I,N,W) of images or (N,W) of sounds, if there are any.

    `arguments` are further ones of the original's image encoder. Vectors of images of any size are (N,W).
    """
    result = {INPUTS_EMBEDS: model.get_input_embeddings()(input_ids)[0].numpy()}
    if FEATURE_ATTENTION_MASK in images:
        result[AUDIO_FEATURES] = _of_sounds(model, input_ids, images)
    elif INPUT_FEATURES in images:
        result[AUDIO_FEATURES] = model.get_audio_features(**images).pooler_output.numpy()
    elif images:
        read = model.get_image_features(**images, **arguments)
        vectors = torch.cat([*read.pooler_output])  # (I*N, W)
        deep = [torch.cat([*one]) for one in getattr(read, "deepstack_features", None) or ()]
        vectors = torch.cat([vectors, *deep], dim=1)
        pixels = images[PIXEL_VALUES]
        if pixels.ndim > 2 and {IMAGE_SIZES, SPATIAL_SHAPES}.isdisjoint(images):
            vectors = vectors.unflatten(0, (pixels.shape[:-3].numel(), -1))
        result[IMAGE_FEATURES] = vectors.numpy()
    return result


def _of_sounds(model: Any, input_ids: Tensor, sounds: Mapping[str, Tensor]) -> np.ndarray:
    """The vectors (N,W) of sounds: what the projector returns in a pass over the row, without padding."""
    results: list[Tensor] = []
    projector = model.get_submodule("model.multi_modal_projector")
    hook = projector.register_forward_hook(lambda _module, _inputs, output: results.append(output))
    try:
        model(**{INPUT_IDS: input_ids, ATTENTION_MASK: torch.ones_like(input_ids)}, **sounds)
    finally:
        hook.remove()
    [vectors] = results  # (I, N, W)
    lengths = sounds[FEATURE_ATTENTION_MASK].sum(1)
    _, counts = model.model.audio_tower._get_feat_extract_output_lengths(lengths)
    every = zip(vectors, counts.tolist(), strict=True)
    joined: np.ndarray = torch.cat([one[:count] for one, count in every]).numpy()
    return joined


def source_pictures(
    model: Any, source: Source, inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> dict[str, Tensor]:
    """The vectors (I,N,W) of the images of an encoder's tokens, which the library loses on the way."""
    if not isinstance(source, PicturedTokens) or not source.images:
        return {}
    if IMAGE_FEATURES in outputs:
        return {IMAGE_FEATURES: outputs[IMAGE_FEATURES]}
    return {IMAGE_FEATURES: model.get_image_features(inputs[PIXEL_VALUES]).pooler_output}
