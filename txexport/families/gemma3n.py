"""Gemma 3n (Gemma Team 2025) as published, with images and sounds: the text model within."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import _pictured, gemma3n_text
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Gemma3nForCausalLM", "Gemma3nForConditionalGeneration")}

NAMING = Naming("model.language_model.", others=("model.",))
OTHERS = ("vision_tower.", "embed_vision.", "audio_tower.", "embed_audio.")  # of images and sounds
LIBRARY_NAMES: dict[str, tuple[str, ...]] = {
    "model.language_model.": ("model.",),
    **{f"model.{part}": () for part in OTHERS},
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture of the text model."""
    tied = _pictured.tied(config, names, ties=True)
    return gemma3n_text.spec(config.table("text_config").replaced(tie_word_embeddings=tied), task, names)


def spelt_out(config: Config) -> tuple[Mapping[str, Any], str]:
    """The text model's config.json: the library builds the other parts with timm alone."""
    text = dict(config.table("text_config").values) | {"model_type": "gemma3n_text"}
    return text, "the text model is exported, and held against Gemma3nForCausalLM of transformers"


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As the text model's; the encoders of images and sounds are left out."""
    text = gemma3n_text.table(spec)
    return replace(text, naming=NAMING, drop=(*text.drop, *(f"{part}*" for part in OTHERS)))
