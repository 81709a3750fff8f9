"""gpt-oss (OpenAI 2025): experts with clipped gates, attention sinks, sliding windows in half the layers."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, ExpertsSpec, FeedForwardSpec

TASKS = _causal.tasks("GptOss", spans=False)

NAMING = llama.NAMING
ALIASES = {"num_experts": "num_local_experts"}
YARN = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; `hidden_act` is not read: experts have their own."""
    config = config.with_defaults(
        num_key_value_heads=8, head_dim=64, rms_norm_eps=1e-5, rope_theta=150000.0, attention_bias=True
    )
    if not config.values.get("rope_parameters") and not config.values.get("rope_scaling"):
        config = config.replaced(rope_parameters=YARN)
    config.expect(swiglu_alpha=1.702)  # the factor of quick_gelu
    config = config.replaced(hidden_act="quick_gelu")
    num_experts, top_k = config.count("num_local_experts", 128), config.integer("num_experts_per_tok", 4)
    clip, window = config.number("swiglu_limit", 7.0), config.integer("sliding_window", 128)
    bias, local = config.flag("attention_bias"), config.local_layers(lambda layer: layer % 2 == 0)

    def mixture(expert: FeedForwardSpec) -> ExpertsSpec:
        return ExpertsSpec(replace(expert, clip=clip), num_experts, top_k, router_bias=True)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, attention=replace(block.dense, sinks=True))

    stack = llama.stack_spec(
        config,
        bias=bias,
        output_bias=bias,
        feed_forward_bias=True,
        windows=[window if windowed else None for windowed in local],
        mixture=mixture,
    )
    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with sinks, and experts (experts,in,out) whose gate and up columns alternate."""
    inherited, mixed = llama.table(spec), spec.stack.blocks[0].feed_forward
    assert isinstance(mixed, ExpertsSpec)
    layer, source = f"{_causal.stack_name(spec)}.layers.{{i}}", "layers.{i}.mlp.experts"
    rules: Rules = {
        f"{layer}.attention.sinks": "layers.{i}.self_attn.sinks",
        f"{layer}.feed_forward.router.*": "layers.{i}.mlp.router.*",
    }
    width = mixed.expert.intermediate_size
    for number in range(mixed.num_experts):
        expert = f"{layer}.feed_forward.experts.{number}"
        for leaf, end, turned in (("weight", "", True), ("bias", "_bias", False)):
            down = Take(
                f"{source}.down_proj{end}", transpose=turned, expert=number, experts=mixed.num_experts
            )
            both = replace(down, source=f"{source}.gate_up_proj{end}", parts=2, groups=width)
            rules[f"{expert}.gate.{leaf}"] = both
            rules[f"{expert}.up.{leaf}"] = replace(both, part=1)
            rules[f"{expert}.down.{leaf}"] = down
    return Table(inherited.rules | rules, NAMING, inherited.drop)
