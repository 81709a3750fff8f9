"""Gemma 3 and EmbeddingGemma (Gemma Team 2025): Gemma 2 with QK-norm, most layers with a sliding window."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, gemma, gemma2, llama
from txexport.families._config import Config, TensorNames
from txexport.families._rope import rotary
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormPlacement, RotarySpec

TASKS = {
    "text-generation": ("Gemma3ForCausalLM",),
    "text-classification": ("Gemma3TextForSequenceClassification",),
    "feature-extraction": ("Gemma3TextModel",),
}

NAMING = llama.NAMING
# Layer types by their names in newer files, the keys of theta in older ones, and their defaults.
WINDOWED, FULL = ("sliding_attention", "rope_local_base_freq", 1e4), ("full_attention", "rope_theta", 1e6)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; with bidirectional attention the window is halved."""
    config = config.with_defaults(head_dim=256, num_key_value_heads=4)
    config.expect(attn_logit_softcapping=None)  # unused by the original
    causal = not config.flag("use_bidirectional_attention", False)
    if task == "text-generation":
        config.expect(use_bidirectional_attention=False)
    config = config.replaced(hidden_act=config.text("hidden_activation", "gelu_pytorch_tanh"))
    width, pattern = config.integer("sliding_window", 4096), config.integer("sliding_window_pattern", 6)
    window = width if causal else width // 2 + 1
    local = config.local_layers(lambda layer: bool((layer + 1) % pattern))
    bias, scale = config.flag("attention_bias", False), config.number("query_pre_attn_scalar", 256) ** -0.5
    turns = {kind: layer_rotary(config, windowed=kind) for kind in set(local)}

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        turned = replace(block.dense, causal=causal, scale=scale, rotary=turns[local[layer]])
        return replace(block, attention=turned, placement=NormPlacement.SANDWICH)

    stack = llama.stack_spec(
        config.replaced(rope_parameters=None, rope_scaling=None),
        bias=bias,
        output_bias=bias,
        head_norm=True,
        windows=[window if windowed else None for windowed in local],
    )
    softcap = config.values.get("final_logit_softcapping")
    return _causal.model(
        config,
        task,
        gemma.scaled_words(_causal.each_layer(stack, varied)),
        tied=True,
        softcap=None if softcap is None else config.number("final_logit_softcapping"),
    )


def layer_rotary(config: Config, windowed: bool) -> RotarySpec:
    """RoPE of a layer type; newer files have a table for each type, older ones a theta."""
    kind, name, theta = WINDOWED if windowed else FULL
    table = config.table("rope_parameters").table(kind)
    table.expect(truncate=True)  # the original ignores it in a table per layer type
    values = dict(table.values)
    if not windowed:
        values |= config.table("rope_scaling").values
    parameters = {"rope_theta": config.number(name, theta)} | {
        k: v for k, v in values.items() if v is not None
    }
    return rotary(config.replaced(rope_parameters=parameters, rope_scaling=None), config.integer("head_dim"))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Gemma 2's, with QK-norm, whose weights are stored minus 1 too."""
    inherited, layer = gemma2.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}.attention"
    rules: Rules = {
        f"{layer}.{norm}.*": Take(f"layers.{{i}}.self_attn.{norm}.*", plus=1.0)
        for norm in ("q_norm", "k_norm")
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
