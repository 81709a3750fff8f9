"""Outputs of originals in the transformers library that are read together with those of their parts."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from txexport.contracts.names import IMAGE_EMBEDS, LOGITS, TEXT_EMBEDS
from txexport.spec import DescribedSegmentsSpec, ModelSpec, VisualRetrieverSpec
from txexport.verification.references.pages import paged
from txexport.verification.references.reference import Arrays


def in_parts(model: Any, inputs: Mapping[str, Tensor], spec: ModelSpec) -> Arrays | None:
    """The outputs of a model of pages, or of one that segments by texts; None of others."""
    if isinstance(spec, VisualRetrieverSpec):
        return {name: one.numpy() for name, one in paged(model, inputs, spec).items()}
    return described_segments(model, inputs) if isinstance(spec, DescribedSegmentsSpec) else None


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
