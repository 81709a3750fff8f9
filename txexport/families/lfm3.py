"""LFM3 (Liquid AI 2026): LFM2 with windows, gates of heads, and norms behind sublayers."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, lfm2, llama
from txexport.families._config import Config, TensorNames
from txexport.families._rope import of_layers
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormPlacement, ShortConvolutionSpec

TASKS = {"text-generation": ("Lfm3ForCausalLM",)}

NAMING = llama.NAMING
ALIASES = {"rms_norm_eps": "norm_eps"}
CONVOLUTION, WINDOWED, FULL = "conv", "sliding_attention", "full_attention"
ROPE = {
    WINDOWED: {"rope_type": "default", "rope_theta": 1e4},
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 1e6},
}
DEFAULTS = {
    **{"num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 7680},
    **{"norm_eps": 1e-5, "max_position_embeddings": 128_000, "num_hidden_layers": 24},
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config.expect(attention_bias=False)
    config = config.with_defaults(**DEFAULTS)
    kinds = config.layer_types(CONVOLUTION, WINDOWED, FULL) or _kinds(config.count("num_hidden_layers"))
    window = config.integer("sliding_window", 256) if WINDOWED in kinds else None
    plain = config.replaced(
        rms_norm_eps=config.number("norm_eps"), hidden_act="silu", rope_parameters=None, rope_scaling=None
    )
    windows = [window if kind == WINDOWED else None for kind in kinds]
    stack = llama.stack_spec(plain, head_norm=True, windows=windows)
    placement = NormPlacement.SANDWICH if config.flag("use_sandwich_norm", True) else NormPlacement.PRE
    gates = config.flag("use_attention_gate", True)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        if kinds[layer] == CONVOLUTION:
            return replace(block, placement=placement)
        turns = of_layers(config, kinds[layer], block.dense.head_dim, ROPE)
        attention = replace(block.dense, rotary=turns, gated_output=gates, head_gates=gates)
        return replace(block, attention=attention, placement=placement)

    convolution = ShortConvolutionSpec(
        stack.hidden_size, config.integer("conv_L_cache", 7), config.flag("conv_bias", False)
    )
    attends = [kind != CONVOLUTION for kind in kinds]
    stack = _causal.beside_attention(config, _causal.each_layer(stack, varied), attends, lambda: convolution)
    return _causal.model(config, task, stack, tied=True)


def _kinds(count: int) -> list[str]:
    """The kind of each layer where config.json has none: every second one attends, every fourth to all."""
    kinds = [{0: WINDOWED, 2: FULL}.get(layer % 4, CONVOLUTION) for layer in range(count)]
    return [CONVOLUTION, *kinds[1:]]


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LFM2's, with the gates, and the norms behind sublayers."""
    inherited, layer = lfm2.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}"
    gates = "layers.{i}.self_attn"
    rules: Rules = {
        **{f"{layer}.attention.{name}_norm.*": f"layers.{{i}}.self_attn.{name}_norm.*" for name in "qk"},
        f"{layer}.attention.o.*": "layers.{i}.self_attn.o_proj.*",
        f"{layer}.attention.output_gate.*": Take(f"{gates}.gate_proj.*", fallback=f"{gates}.g_proj.*"),
        f"{layer}.attention_post_norm.*": "layers.{i}.post_operator_norm.*",
        f"{layer}.feed_forward_post_norm.*": "layers.{i}.post_ffn_norm.*",
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
