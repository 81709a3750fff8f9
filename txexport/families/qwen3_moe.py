"""Qwen3-MoE (Yang et al. 2025): Qwen3 with a mixture of experts in every layer, or in some."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, ExpertsSpec, FeedForwardSpec, TextStackSpec

TASKS = _causal.tasks("Qwen3Moe", spans=False)

NAMING = llama.NAMING
ALIASES = {"num_experts": "num_local_experts"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; a sliding window applies to all layers."""
    config = config.with_defaults(
        num_key_value_heads=4, num_local_experts=128, num_experts_per_tok=8, moe_intermediate_size=768
    )
    config = config.replaced(num_experts=config.values["num_local_experts"])
    bias = config.flag("attention_bias", False)
    windowed = config.flag("use_sliding_window", False) and config.values.get("sliding_window", 0) is not None
    window = config.integer("sliding_window", 4096) if windowed else None
    stack = llama.stack_spec(config, bias=bias, output_bias=bias, head_norm=True, windows=[window])
    return _causal.model(config, task, mixed(config, stack), tied=False)


def mixed(config: Config, stack: TextStackSpec, shared: int | None = None) -> TextStackSpec:
    """`stack` with experts in the layers that have them; `shared` is the width of a shared expert."""
    num_experts, top_k = config.count("num_experts"), config.integer("num_experts_per_tok")
    width, step = config.integer("moe_intermediate_size"), config.integer("decoder_sparse_step", 1)
    normalised, plain = config.flag("norm_topk_prob", False), config.values.get("mlp_only_layers") or []

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        expert = block.feed_forward
        if layer in plain or not num_experts or (layer + 1) % step:
            return block
        assert isinstance(expert, FeedForwardSpec)
        beside = None if shared is None else replace(expert, intermediate_size=shared)
        expert = replace(expert, intermediate_size=width)
        return replace(block, feed_forward=ExpertsSpec(expert, num_experts, top_k, normalised, beside))

    return _causal.each_layer(stack, varied)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with experts, which have tensors of their own or share two of each layer."""
    inherited, layer = llama.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward"
    rules: Rules = {f"{layer}.router.weight": "layers.{i}.mlp.gate.weight"}
    mixtures = [
        block.feed_forward for block in spec.stack.blocks if isinstance(block.feed_forward, ExpertsSpec)
    ]
    count, source = mixtures[0].num_experts if mixtures else 0, "layers.{i}.mlp.experts"
    for number in range(count):
        down = Take(f"{source}.down_proj", expert=number, experts=count)
        both = replace(down, source=f"{source}.gate_up_proj", parts=2)
        shared = {"gate": both, "up": replace(both, part=1), "down": down}
        for name, fallback in shared.items():
            single = Take(f"{source}.{number}.{name}_proj.*", fallback=fallback)
            rules[f"{layer}.experts.{number}.{name}.*"] = single
    return Table(inherited.rules | rules, NAMING, inherited.drop)
