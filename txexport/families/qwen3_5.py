"""Qwen3.5 (Qwen Team 2026) as published, with images: the text model within."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import _pictured, qwen3_5_text
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration")}

NAMING = Naming("model.language_model.", others=("model.",))


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture of the text model."""
    return qwen3_5_text.spec(text_of(config, names), task, names)


def text_of(config: Config, names: TensorNames) -> Config:
    """The settings of the text model."""
    return config.table("text_config").replaced(tie_word_embeddings=_pictured.tied(config, names))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As the text model's; the image encoder is left out."""
    return within(qwen3_5_text.table(spec))


def within(text: Table) -> Table:
    """The rules of the text model, for a checkpoint that has an image encoder too."""
    return replace(text, naming=NAMING, drop=(*text.drop, "visual.*"))
