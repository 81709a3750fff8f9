"""Qwen1.5-MoE and Qwen2-MoE (Yang et al. 2024): Qwen2 with routed experts and a shared expert."""

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, llama, qwen3_moe
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("Qwen2Moe")

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(
        num_key_value_heads=16, num_experts=60, num_experts_per_tok=4, moe_intermediate_size=1408
    )
    stack = llama.stack_spec(config, bias=config.flag("qkv_bias", True), windows=_windows(config))
    shared = config.integer("shared_expert_intermediate_size", 5632)
    return _causal.model(config, task, qwen3_moe.mixed(config, stack, shared), tied=False)


def _windows(config: Config) -> list[int | None]:
    """The sliding window of every layer: by layer_types, or of every other one up to max_window_layers."""
    layers = config.count("num_hidden_layers")
    if not config.flag("use_sliding_window", False):
        config.expect(layer_types=["full_attention"] * layers)
        return [None] * layers
    window, last = config.integer("sliding_window", 4096), config.integer("max_window_layers", 28)
    local = config.local_layers(lambda layer: layer % 2 == 0 and layer < last)
    return [window if windowed else None for windowed in local]


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Qwen3-MoE's, with the shared expert."""
    inherited, layer = qwen3_moe.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward"
    rules: Rules = {
        f"{layer}.shared.{name}.*": f"layers.{{i}}.mlp.shared_expert.{name}_proj.*"
        for name in ("gate", "up", "down")
    }
    rules[f"{layer}.shared_router.*"] = "layers.{i}.mlp.shared_expert_gate.*"
    return Table(inherited.rules | rules, NAMING, inherited.drop)
