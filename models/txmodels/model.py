"""Whole models, put together from a spec."""

import warnings
from collections.abc import Collection
from typing import Any

from txexport.spec import Cache, ModelSpec
from txmodels.architectures import (
    ARCHITECTURES,
    CrossVisionLanguageModel,
    DecoderModel,
    EncoderDecoderModel,
    EncoderModel,
    VisionLanguageModel,
)

# All but dual encoders and those of images with prompts or texts
Transformer = (
    EncoderModel | DecoderModel | EncoderDecoderModel | VisionLanguageModel | CrossVisionLanguageModel
)


def model(spec: ModelSpec, cache: Cache = Cache.STATIC, outputs: Collection[str] = ()) -> Any:
    """The module of a model, of its architecture's class, whose decoder has a `cache` of that kind.

    `outputs` of every layer are returned too, as a contract has them.
    """
    return ARCHITECTURES[type(spec)](spec, cache, outputs)


def __getattr__(name: str) -> Any:
    if name == "Model":
        warnings.warn("txmodels.model.Model is now txmodels.model.model", DeprecationWarning, stacklevel=2)
        return model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
