"""OLMo Hybrid (OLMo Team 2026): OLMo 3's attention in every fourth layer, gated delta rules in the others."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama, olmo2
from txexport.families._config import Config, TensorNames
from txexport.families._rope import scaling
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    GatedDeltaSpec,
    NormKind,
    NormPlacement,
    NormSpec,
)

TASKS = {"text-generation": ("OlmoHybridForCausalLM",)}

NAMING = llama.NAMING
EPSILON = 1e-5  # of the norm of heads, fixed in the original
DEFAULTS = {
    "hidden_size": 3840,
    "num_attention_heads": 30,
    "num_hidden_layers": 32,
    "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-6,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; delta rules have their norms before them.

    A rope_theta of null, as published, means that attention knows no positions.
    """
    config = config.with_defaults(**DEFAULTS)
    theta = scaling(config)[0].values.get("rope_theta", config.values.get("rope_theta", 10000.0))
    turns = theta is not None
    attends = _attends(config, config.count("num_hidden_layers"))
    if not turns:
        config = config.replaced(rope_parameters=None, rope_scaling=None)
    stack = olmo2.stack_spec(config, [None])

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        rotary = block.dense.rotary if turns else None
        placement = block.placement if attends[layer] else NormPlacement.PRE
        return replace(block, attention=replace(block.dense, rotary=rotary), placement=placement)

    stack = _causal.each_layer(stack, varied)
    stack = _causal.beside_attention(config, stack, attends, lambda: _delta(config, stack.hidden_size))
    return _causal.model(config, task, stack, tied=False)


def _attends(config: Config, count: int) -> list[bool]:
    """For each layer, tell whether it has attention: by layer_types, or every fourth, else the last."""
    kinds = config.layer_types("linear_attention", "full_attention")
    if kinds:
        return [kind == "full_attention" for kind in kinds]
    return [layer % 4 == 3 or layer == count - 1 < 3 for layer in range(count)]


def _delta(config: Config, width: int) -> GatedDeltaSpec:
    """The delta rule; its sizes follow from attention's where config.json has none."""
    _causal.expect_silu(config, "a delta rule")
    heads = config.integer("num_attention_heads")
    keys = config.integer("linear_num_key_heads", heads)
    key_dim = config.integer("linear_key_head_dim", int(0.75 * width / keys))
    value_dim = config.integer("linear_value_head_dim", 2 * key_dim)
    return GatedDeltaSpec(
        width,
        keys,
        config.integer("linear_num_value_heads", heads),
        key_dim,
        value_dim,
        config.integer("linear_conv_kernel_dim", 4),
        NormSpec(value_dim, EPSILON, NormKind.RMS),
        config.flag("linear_allow_neg_eigval", True),
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As OLMo 2's, with delta rules, the names of whose norms are others.

    transformers saves the first norm after a sublayer by the name of the second one before it.
    """
    inherited, layer = olmo2.table(spec), f"{_causal.stack_name(spec)}.layers"
    mixer, source = f"{layer}.{{i}}.attention", "layers.{i}.linear_attn"
    convolutions = [f"{source}.{name}_conv1d.weight" for name in "qkv"]
    rules: Rules = {
        f"{mixer}.convolution.weight": Take(convolutions[0], joined=tuple(convolutions[1:])),
        f"{mixer}.rate": f"{source}.A_log",
        f"{mixer}.step": f"{source}.dt_bias",
        f"{mixer}.head_norm.*": f"{source}.o_norm.*",
    }
    names = {"query": "q", "key": "k", "value": "v", "gate": "g", "beta": "b", "decay": "a", "output": "o"}
    rules |= {f"{mixer}.{ours}.*": f"{source}.{theirs}_proj.*" for ours, theirs in names.items()}
    for number, block in enumerate(spec.stack.layers):
        first, second = f"layers.{number}.post_attention_layernorm", f"layers.{number}.feedforward_layer_norm"
        if block.has_keys:
            norms = {"attention": Take(f"{first}.weight", fallback=f"{second}.weight")}
        else:
            before = Take(
                f"layers.{number}.attention_layer_norm.weight",
                fallback=f"layers.{number}.input_layernorm.weight",
            )
            norms = {
                "attention": before,
                "feed_forward": Take(f"{second}.weight", fallback=f"{first}.weight"),
            }
        rules |= {f"{layer}.{number}.{name}_norm.weight": take for name, take in norms.items()}
    return Table(inherited.rules | rules, NAMING, inherited.drop)
