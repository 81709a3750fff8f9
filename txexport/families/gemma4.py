"""Gemma 4 (Gemma Team 2026) as published, with images and sounds: the text model within."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import _pictured, gemma4_text
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Gemma4ForCausalLM", "Gemma4ForConditionalGeneration")}

NAMING = Naming("model.language_model.", others=("model.",))


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture of the text model."""
    tied = _pictured.tied(config, names, ties=True)
    return gemma4_text.spec(config.table("text_config").replaced(tie_word_embeddings=tied), task, names)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As the text model's; the encoders of images and sounds are left out."""
    text = gemma4_text.table(spec)
    others = "vision_tower.*", "embed_vision.*", "audio_tower.*", "embed_audio.*"
    return replace(text, naming=NAMING, drop=(*text.drop, *others))
