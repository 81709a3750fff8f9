"""StableLM (Bellagamba et al. 2024): LLaMA with LayerNorm and RoPE on a quarter of a head."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormPlacement, NormSpec

TASKS = _causal.tasks("StableLm", spans=False)

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; QK-norm would have separate weights for each head."""
    config = config.with_defaults(num_key_value_heads=32, partial_rotary_factor=0.25)
    config.expect(qk_layernorm=False)
    norm = NormSpec(config.integer("hidden_size"), config.number("layer_norm_eps", 1e-5))
    parallel = config.flag("use_parallel_residual", False)
    placement = NormPlacement.PARALLEL if parallel else NormPlacement.PRE

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, norm=norm, placement=placement)

    bias = config.flag("use_qkv_bias", False)
    stack = llama.stack_spec(config, bias=bias, fraction="partial_rotary_factor")
    stack = replace(_causal.each_layer(stack, varied), final_norm=norm)
    return _causal.model(config, task, stack, tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's; parallel sublayers share a norm, which is stored once."""
    inherited = llama.table(spec)
    layer = f"{_causal.stack_name(spec)}.layers.{{i}}"
    rules: Rules = {f"{layer}.feed_forward_norm.*": "layers.{i}.input_layernorm.*"}
    parallel = spec.stack.blocks[0].placement == NormPlacement.PARALLEL
    return Table(inherited.rules | (rules if parallel else {}), NAMING, inherited.drop)
