"""Llama 4 (Meta 2025) as published, with images: the text model within."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import llama4_text
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Llama4ForCausalLM", "Llama4ForConditionalGeneration")}

NAMING = Naming("language_model.model.", others=("language_model.",))
OTHERS = ("vision_model.", "multi_modal_projector.")
ALIASES = {
    "image_token_id": "image_token_index",
    "boi_token_id": "boi_token_index",
    "eoi_token_id": "eoi_token_index",
}
LIBRARY_NAMES: dict[str, tuple[str, ...]] = {"language_model.": ("",), **dict.fromkeys(OTHERS, ())}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture of the text model."""
    return llama4_text.spec(config.table("text_config"), task, names)


def spelt_out(config: Config) -> tuple[Mapping[str, Any], str]:
    """The text model's config.json, which the library's class of texts alone reads."""
    text = dict(config.table("text_config").values) | {"model_type": "llama4_text"}
    return text, "the text model is exported, and held against Llama4ForCausalLM of transformers"


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As the text model's; the encoder of images is left out."""
    text = llama4_text.table(spec)
    return replace(text, naming=NAMING, drop=(*text.drop, *(f"{part}*" for part in OTHERS)))
