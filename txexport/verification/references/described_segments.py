"""Outputs of CLIPSeg in the transformers library, those of its encoders among them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from txexport.contracts.names import IMAGE_EMBEDS, LOGITS, TEXT_EMBEDS
from txexport.verification.references.reference import Arrays


def described_segments(model: Any, inputs: Mapping[str, Tensor]) -> Arrays:
    """Logits (B,height,width) of pairs, vectors (B,D) of texts, and what the decoder reads of images."""
    states: list[Tensor] = []
    hooks = [
        reduce.register_forward_hook(lambda module, arguments, state: states.append(state))
        for reduce in model.decoder.reduces
    ]
    try:
        outputs = model(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    result = {
        LOGITS: outputs.logits,
        TEXT_EMBEDS: outputs.conditional_embeddings,
        IMAGE_EMBEDS: torch.stack(states, dim=1),
    }
    return {name: value.numpy() for name, value in result.items()}
