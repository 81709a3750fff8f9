"""Qwen3.5 (Qwen Team 2026) as published, with images: the text model within."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Table
from txexport.families import qwen3_5_text
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration")}

NAMING = Naming("model.language_model.", others=("model.",))


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture of the text model."""
    return qwen3_5_text.spec(config.table("text_config"), task, names)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As the text model's; the image encoder is left out."""
    inherited = qwen3_5_text.table(spec)
    return replace(inherited, naming=NAMING, drop=(*inherited.drop, "visual.*"))
