"""Outputs of an original that writes about an image, and is no encoder-decoder to the library."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from txexport.contracts import OUTPUTS
from txexport.contracts.names import (
    ATTENTION_MASK,
    DECODER,
    ENCODER,
    IMAGE_FEATURES,
    INPUT_IDS,
    PIXEL_VALUES,
)


def captioned(
    model: Any, encoder_inputs: Mapping[str, Any], input_ids: Tensor, arguments: Mapping[str, bool]
) -> Any:
    """The decoder's outputs for tokens after an image, with its caches and the encoder's hidden states.

    With a question, its tokens read the image, and the decoder reads them; the image's vectors are returned
    too. `arguments` request outputs of every layer, which are returned by the names of an encoder-decoder.
    """
    vision = model.vision_model(encoder_inputs[PIXEL_VALUES], **arguments)
    image = vision.last_hidden_state
    hidden, mask = image, {}
    if INPUT_IDS in encoder_inputs:
        question = {name: encoder_inputs[name] for name in (INPUT_IDS, ATTENTION_MASK)}
        seen = torch.ones(image.shape[:2], dtype=torch.long)
        hidden = model.text_encoder(
            **question, encoder_hidden_states=image, encoder_attention_mask=seen
        ).last_hidden_state
        mask = {"encoder_attention_mask": encoder_inputs[ATTENTION_MASK]}
    outputs = model.text_decoder(
        input_ids=input_ids, encoder_hidden_states=hidden, use_cache=True, **mask, **arguments
    )
    for kind in [name for name in OUTPUTS if name in outputs]:
        outputs[f"{DECODER}_{kind}"], outputs[f"{ENCODER}_{kind}"] = outputs[kind], vision[kind]
        outputs[kind] = None
    outputs.encoder_last_hidden_state = hidden
    if INPUT_IDS in encoder_inputs:
        outputs[IMAGE_FEATURES] = image
    return outputs
