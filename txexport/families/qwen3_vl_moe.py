"""Qwen3-VL with experts in the decoder (Bai et al. 2025)."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table, Take
from txexport.families import _qwen3_vl_moe_text, qwen3_vl
from txexport.families._config import Config, TensorNames
from txexport.spec import VisionLanguageSpec

TASKS = {"image-text-to-text": ("Qwen3VLMoeForConditionalGeneration",)}

NAMING = qwen3_vl.NAMING
DEFAULTS = qwen3_vl.DEFAULTS | {
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "tie_word_embeddings": True,
}


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    return qwen3_vl.architecture(config, names, _qwen3_vl_moe_text, DEFAULTS)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers.

    Tensors of all experts are (experts,in,out) as published, and (experts,out,in) as transformers 5 saves
    them.
    """
    inherited = qwen3_vl.names_of(spec(config, task, names), _qwen3_vl_moe_text)
    text, shapes = config.text_model().with_defaults(**DEFAULTS), names.shapes("mlp.experts.down_proj")
    published = text.integer("moe_intermediate_size"), text.integer("hidden_size")
    if not shapes or any(shape[1:] != published for shape in shapes):
        return inherited
    rules = {ours: _transposed(take) for ours, take in inherited.rules.items()}
    return replace(inherited, rules=rules)


def _transposed(rule: str | Take) -> str | Take:
    """The rule with tensors of all experts transposed."""
    if isinstance(rule, str) or not isinstance(rule.fallback, Take):
        return rule
    return replace(rule, fallback=replace(rule.fallback, transpose=True))
