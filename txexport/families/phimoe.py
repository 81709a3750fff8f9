"""Phi-3.5-MoE (Abdin et al. 2024): Mixtral with layer norms, biases, and SparseMixer routing."""

from dataclasses import replace

from txexport.errors import UnsupportedError
from txexport.families import _causal, llama, mixtral
from txexport.families._config import Config, TensorNames
from txexport.families._rope import LONG, scaling
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    NormSpec,
    TextStackSpec,
)

TASKS = _causal.tasks("Phimoe", tokens=False, spans=False)
TASKS["text-generation"] += ("PhiMoEForCausalLM",)  # the code published with the files

NAMING = llama.NAMING
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; the original's router always selects two experts."""
    config = config.with_defaults(rms_norm_eps=1e-5, num_key_value_heads=8, rope_theta=1e6)
    config.expect(num_experts_per_tok=2)
    num_experts = config.count("num_local_experts", 16)
    jitter, bias = config.number("router_jitter_noise", 0.01), config.flag("attention_bias", False)

    def mixture(expert: FeedForwardSpec) -> ExpertsSpec:
        return ExpertsSpec(expert, num_experts, 2, jitter=jitter)

    has_window = config.values.get("sliding_window") is not None
    window = config.integer("sliding_window") if has_window else None
    stack = llama.stack_spec(config, bias=bias, output_bias=bias, windows=(window,), mixture=mixture)
    stack = _turned(config, stack)
    return _causal.model(config, task, stack, tied=False, bias=config.flag("lm_head_bias", False))


def _turned(config: Config, stack: TextStackSpec) -> TextStackSpec:
    """`stack` with layer norms, and RoPE scaled by LongRoPE's stored factors instead of its formula.

    Raises UnsupportedError for another scaling. The original uses the short factors at every length, so that
    a checkpoint restricted to the long ones is refused too.
    """
    values, kind = scaling(config)
    if kind not in ("default", LONG):
        raise UnsupportedError(
            f"{config.path}: rope_type '{kind}' is not supported; expected default or {LONG}"
        )
    if kind == LONG and values.values.get("long_factor") == values.values["short_factor"]:
        raise UnsupportedError(
            f"{config.path}: short_factor and long_factor are equal, but the original uses the short "
            "factors at every length; leave rope_factors out"
        )
    norm = NormSpec(stack.hidden_size, config.number("rms_norm_eps", 1e-5))
    scale = values.number("short_mscale") if kind == LONG else 1.0

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        rotary = block.dense.rotary
        assert rotary is not None
        attention = replace(block.dense, rotary=replace(rotary.of_short, scale=scale))
        return replace(block, attention=attention, norm=norm)

    return replace(_causal.each_layer(stack, varied), final_norm=norm)


table = mixtral.table
