"""LFM2-MoE (Amini et al. 2025): LFM2 with a mixture of experts in all layers but the first ones."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, lfm2, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, ExpertsSpec, FeedForwardSpec

TASKS = {"text-generation": ("Lfm2MoeForCausalLM",)}

NAMING = llama.NAMING
SUM_EPS = 1e-6  # fixed in the original, not in config.json


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config.expect(use_expert_bias=True)
    config = lfm2.renamed(config)
    stack, dense = lfm2.stack_spec(config), config.count("num_dense_layers", 2)
    normalised = config.flag("norm_topk_prob", True)
    scale = config.number("routed_scaling_factor", 1.0)
    num_experts, top_k = config.count("num_experts", 32), config.integer("num_experts_per_tok", 4)
    width = config.integer("moe_intermediate_size", 1792)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        plain = block.feed_forward
        if layer < dense:
            return block
        assert isinstance(plain, FeedForwardSpec)
        expert = replace(plain, intermediate_size=width)
        mixture = ExpertsSpec(
            expert, num_experts, top_k, normalised, corrected=True, scale=scale, sum_eps=SUM_EPS
        )
        return replace(block, feed_forward=mixture)

    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LFM2's, with experts."""
    inherited, source = lfm2.table(spec), "layers.{i}.feed_forward"
    layer = f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward"
    rules: Rules = {
        f"{layer}.router.weight": f"{source}.gate.weight",
        f"{layer}.router.correction": f"{source}.expert_bias",
    }
    mixtures = [
        block.feed_forward for block in spec.stack.blocks if isinstance(block.feed_forward, ExpertsSpec)
    ]
    for number in range(mixtures[0].num_experts if mixtures else 0):
        for name, other in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
            rules[f"{layer}.experts.{number}.{name}.*"] = f"{source}.experts.{number}.{other}.*"
    return Table(inherited.rules | rules, NAMING, inherited.drop)
