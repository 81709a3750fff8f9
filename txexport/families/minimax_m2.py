"""MiniMax-M2 (MiniMax 2025): Mixtral with QK-norm over the full projection and sigmoid routing."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, llama, mixtral
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, ExpertsSpec, FeedForwardSpec

TASKS = {"text-generation": ("MiniMaxM2ForCausalLM",), "feature-extraction": ("MiniMaxM2Model",)}

NAMING = llama.NAMING
ALIASES = {"num_experts": "num_local_experts"}
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes.

    Published files also state what holds for all of this family, and the part of a head that rotates as
    rotary_dim.
    """
    config.expect(scoring_func="sigmoid", use_qk_norm=True, qk_norm_type="per_layer", use_routing_bias=True)
    config.expect(shared_intermediate_size=0)
    config = config.with_defaults(num_key_value_heads=8, head_dim=128, rope_theta=5e6)
    if config.values.get("rotary_dim") is not None:
        share = config.integer("rotary_dim") / config.integer("head_dim")
        config = config.with_defaults(partial_rotary_factor=share)
    num_experts, top_k = config.count("num_local_experts", 256), config.integer("num_experts_per_tok", 8)

    def mixture(expert: FeedForwardSpec) -> ExpertsSpec:
        return ExpertsSpec(expert, num_experts, top_k, corrected=True)

    def varied(_: int, block: BlockSpec) -> BlockSpec:
        return replace(block, attention=replace(block.dense, joint_norm=True))

    stack = llama.stack_spec(config, head_norm=True, mixture=mixture, fraction="partial_rotary_factor")
    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Mixtral's, with e_score_correction_bias."""
    inherited, layer = mixtral.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward"
    rules: Rules = {f"{layer}.router.correction": "layers.{i}.block_sparse_moe.e_score_correction_bias"}
    return Table(rules | inherited.rules, NAMING, inherited.drop)
