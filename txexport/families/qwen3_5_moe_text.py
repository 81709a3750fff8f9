"""Qwen3.5 with experts (Qwen Team 2026), the text model."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table
from txexport.families import _causal, llama, qwen2_moe, qwen3_5_text, qwen3_moe, qwen3_next
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Qwen3_5MoeForCausalLM",)}

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> DecoderSpec:
    """The architecture that config.json describes; every layer has experts."""
    config = config.with_defaults(
        num_key_value_heads=2, num_experts=256, num_experts_per_tok=8, moe_intermediate_size=512
    )
    config = config.replaced(
        norm_topk_prob=True,
        intermediate_size=config.integer("moe_intermediate_size"),
        mlp_only_layers=None,
        decoder_sparse_step=1,
    )
    shared = config.integer("shared_expert_intermediate_size", 512)
    stack = qwen3_moe.mixed(config, qwen3_next.stack_spec(config), shared)
    model = _causal.model(config, task, stack, tied=False)
    assert isinstance(model, DecoderSpec)
    return replace(model, several_axes=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Qwen3.5's, with experts."""
    return qwen3_next.with_delta(spec, qwen2_moe.table(spec), qwen3_5_text.projections(spec))
