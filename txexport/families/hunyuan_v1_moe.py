"""Hunyuan-A13B (Tencent 2025): Hunyuan dense with experts beside a shared network."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import _causal, hunyuan_v1_dense, llama, qwen3_moe
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, ExpertsSpec, FeedForwardSpec

TASKS = {
    "text-generation": ("HunYuanMoEV1ForCausalLM",),
    "text-classification": ("HunYuanMoEV1ForSequenceClassification",),
    "feature-extraction": ("HunYuanMoEV1Model",),
}

NAMING = llama.NAMING
ALIASES = {"num_experts_per_tok": "moe_topk", "num_local_experts": "num_experts"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes.

    Published files have a list of equal values, one for each layer, where this family takes one.
    """
    width = config.integer("intermediate_size")
    experts, top_k, size = _same(config, "num_experts", 1), _same(config, "moe_topk", 1), width
    if config.values.get("moe_intermediate_size") is not None:
        size = _same(config, "moe_intermediate_size", width)
    if size != width or _same(config, "num_shared_expert", 1) != 1:
        raise UnsupportedError(
            f"{config.path}: moe_intermediate_size {size} and num_shared_expert are not supported; expected "
            f"experts as wide as intermediate_size, {width}, and one shared network"
        )

    def varied(_: int, block: BlockSpec) -> BlockSpec:
        network = block.feed_forward
        assert isinstance(network, FeedForwardSpec)
        mixture = ExpertsSpec(network, experts, top_k, shared=network, shared_gated=False)
        return replace(block, feed_forward=mixture)

    stack = _causal.each_layer(hunyuan_v1_dense.stack_spec(config), varied)
    return _causal.model(config, task, stack, tied=False)


def _same(config: Config, key: str, default: int) -> int:
    """The value of `key`, which may be a list of equal ones."""
    value = config.values.get(key)
    if isinstance(value, list) and value and all(one == value[0] for one in value):
        config = config.replaced(**{key: value[0]})
    return config.integer(key, default)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As that of the dense models, with experts and a shared network."""
    dense, experts = hunyuan_v1_dense.table(spec), qwen3_moe.table(spec)
    layer = f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward"
    rules: Rules = {
        f"{layer}.shared.{name}.*": f"layers.{{i}}.mlp.shared_mlp.{name}_proj.*"
        for name in ("gate", "up", "down")
    }
    rules[f"{layer}.router.weight"] = "layers.{i}.mlp.gate.wg.weight"
    return Table(experts.rules | dense.rules | rules, NAMING, dense.drop)
