"""Outputs of an original that writes about an image, and is no encoder-decoder to the library."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor


def captioned(model: Any, encoder_inputs: Mapping[str, Any], input_ids: Tensor) -> Any:
    """The decoder's outputs for tokens after an image, with its caches, and the image's hidden states."""
    hidden = model.vision_model(**encoder_inputs).last_hidden_state
    outputs = model.text_decoder(input_ids=input_ids, encoder_hidden_states=hidden, use_cache=True)
    outputs.encoder_last_hidden_state = hidden
    return outputs
