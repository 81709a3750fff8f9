"""Qwen3.5 with experts (Qwen Team 2026) as published, with images."""

from txexport.checkpoints.weight_map import Table
from txexport.families import qwen3_5, qwen3_5_moe_text
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, VisionLanguageSpec

TASKS = {
    "image-text-to-text": ("Qwen3_5MoeForConditionalGeneration",),
    "text-generation": ("Qwen3_5MoeForCausalLM",),
}

NAMING = qwen3_5.NAMING
DEFAULTS = {
    "vocab_size": 248320,
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "max_position_embeddings": 32768,
}


def spec(config: Config, task: str, names: TensorNames) -> DecoderSpec | VisionLanguageSpec:
    """The architecture of the whole model, or of its text model."""
    return qwen3_5.architecture(config, task, names, qwen3_5_moe_text, DEFAULTS)


def table(spec: DecoderSpec | VisionLanguageSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return qwen3_5.names_of(spec, qwen3_5_moe_text)
