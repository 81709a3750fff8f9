"""Command R and Aya (Cohere 2024): parallel sublayers after one norm without bias, interleaved RoPE."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormPlacement, NormSpec, TextStackSpec

TASKS = {"text-generation": ("CohereForCausalLM",), "feature-extraction": ("CohereModel",)}

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; QK-norm would have separate weights for each head."""
    config.expect(use_qk_norm=False)
    return decoder_spec(config, task, stack_spec(config.with_defaults(rope_theta=5e5), [None]))


def stack_spec(config: Config, windows: list[int | None]) -> TextStackSpec:
    """The stack; `windows` are the sliding windows of the layers."""
    norm = NormSpec(config.integer("hidden_size"), config.number("layer_norm_eps", 1e-5), bias=False)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, norm=norm, placement=NormPlacement.PARALLEL)

    bias = config.flag("attention_bias", False)
    stack = _causal.interleaved(llama.stack_spec(config, bias=bias, output_bias=bias, windows=windows))
    return replace(_causal.each_layer(stack, varied), final_norm=norm)


def decoder_spec(config: Config, task: str, stack: TextStackSpec) -> EncoderSpec | DecoderSpec:
    """`stack` under its head, whose logits are scaled."""
    return _causal.model(config, task, stack, tied=True, scale=config.number("logit_scale", 0.0625))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's; both sublayers share one norm, which is stored once."""
    inherited = llama.table(spec)
    layer = f"{_causal.stack_name(spec)}.layers.{{i}}"
    rules: Rules = {f"{layer}.feed_forward_norm.*": "layers.{i}.input_layernorm.*"}
    return Table(inherited.rules | rules, NAMING, inherited.drop)
