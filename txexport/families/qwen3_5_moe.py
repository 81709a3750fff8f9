"""Qwen3.5 with experts (Qwen Team 2026) as published, with images: the text model within."""

from txexport.checkpoints.weight_map import Table
from txexport.families import qwen3_5, qwen3_5_moe_text
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration")}

NAMING = qwen3_5.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture of the text model."""
    return qwen3_5_moe_text.spec(qwen3_5.text_of(config, names), task, names)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As the text model's; the image encoder is left out."""
    return qwen3_5.within(qwen3_5_moe_text.table(spec))
