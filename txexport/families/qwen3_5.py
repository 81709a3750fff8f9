"""Qwen3.5 (Qwen Team 2026) as published: Qwen3-VL's image encoder without DeepStack, and the text model."""

from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

from txexport.checkpoints.weight_map import Naming, Table
from txexport.errors import CheckpointError
from txexport.families import _pictured, qwen3_5_text, qwen3_vl
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, VisionLanguageSpec

TASKS = {
    "image-text-to-text": ("Qwen3_5ForConditionalGeneration",),
    "text-generation": ("Qwen3_5ForCausalLM",),
}

NAMING = Naming("model.language_model.", others=("model.",))
IMAGE_TOKEN = 248056
SECTIONS = (11, 11, 10)  # frequencies of frames, rows and columns, where config.json says nothing
DEFAULTS = {
    "vocab_size": 248320,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "max_position_embeddings": 32768,
}


def spec(config: Config, task: str, names: TensorNames) -> DecoderSpec | VisionLanguageSpec:
    """The architecture of the whole model, or of its text model."""
    return architecture(config, task, names, qwen3_5_text, DEFAULTS)


def architecture(
    config: Config, task: str, names: TensorNames, family: ModuleType, defaults: Mapping[str, Any]
) -> DecoderSpec | VisionLanguageSpec:
    """The architecture with a text model of `family`; `defaults` are those of text_config."""
    if task == "image-text-to-text":
        if not any("visual." in name for name in names):
            raise CheckpointError(
                f"{config.path} is of a model that reads images, but its image encoder has no tensors "
                "(visual.*); --task text-generation exports the text model"
            )
        config = config.with_defaults(image_token_id=IMAGE_TOKEN)
        return qwen3_vl.without_deep(config, names, family, defaults, SECTIONS)
    text = config.table("text_config").with_defaults(**defaults)
    if text.flag("tie_word_embeddings", False):  # the text model's class reads this one
        config = config.replaced(tie_word_embeddings=True)
    text = text.replaced(tie_word_embeddings=_pictured.tied(config, names))
    spec: DecoderSpec = family.spec(text, task, names)
    return spec


def table(spec: DecoderSpec | VisionLanguageSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return names_of(spec, qwen3_5_text)


def names_of(spec: DecoderSpec | VisionLanguageSpec, family: ModuleType) -> Table:
    """The tensor names with a text model of `family`; for that alone, the image encoder is left out."""
    if isinstance(spec, VisionLanguageSpec):
        return qwen3_vl.names_of(spec, family)
    text: Table = family.table(spec)
    return replace(text, naming=NAMING, drop=(*text.drop, "visual.*"))
