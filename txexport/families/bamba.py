"""Bamba (IBM, Princeton, CMU and UIUC 2024): Mamba-2 layers, and a few with attention and partial RoPE."""

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, _mamba2, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("BambaForCausalLM",)}

NAMING = llama.NAMING
ALIASES = {"layer_types": "layers_block_type"}  # which it computes


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(
        rms_norm_eps=1e-5, num_key_value_heads=8, max_position_embeddings=262_144, partial_rotary_factor=0.5
    )
    bias = config.flag("attention_bias", False)
    stack = llama.stack_spec(
        config,
        bias=bias,
        output_bias=bias,
        feed_forward_bias=config.flag("mlp_bias", False),
        fraction="partial_rotary_factor",
    )
    missing = config.values.get("attn_layer_indices") is None
    listed = [] if missing else config.numbers("attn_layer_indices")
    attends = [layer in listed for layer in range(stack.num_layers)]
    mixed = _causal.beside_attention(config, stack, attends, lambda: _mamba2.layer(config, stack.hidden_size))
    return _causal.model(config, task, mixed, tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with Mamba-2 layers and other names of the feed-forward network and norms."""
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{layer}.feed_forward.{name}.*": f"layers.{{i}}.feed_forward.{name}_proj.*"
        for name in ("gate", "up", "down")
    }
    rules |= _mamba2.rules(f"{layer}.attention", "layers.{i}.mamba")
    rules[f"{layer}.feed_forward_norm.*"] = "layers.{i}.pre_ff_layernorm.*"
    rules[f"{stack}.final_norm.*"] = "final_layernorm.*"
    return Table(inherited.rules | rules, NAMING, inherited.drop)
