"""Jamba (Lieber et al. 2024): Mamba layers, a few with attention and no positions, experts in some."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.errors import CheckpointError
from txexport.families import _causal, llama, mamba
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, ExpertsSpec, FeedForwardSpec, MambaSpec

TASKS = {"text-generation": ("JambaForCausalLM",)}

NAMING = llama.NAMING
ALIASES = {"num_local_experts": "num_experts"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; nothing has positions."""
    experts, top_k = config.count("num_experts", 16), config.integer("num_experts_per_tok", 2)
    config = config.with_defaults(
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=262_144,
        vocab_size=65_536,
    )
    stack = llama.stack_spec(config.replaced(rope_parameters=None, rope_scaling=None))
    attends = _every(config, "attn_layer", 8, 4, stack.num_layers)
    mixed = _every(config, "expert_layer", 2, 1, stack.num_layers)

    def varied(number: int, block: BlockSpec) -> BlockSpec:
        network = block.feed_forward
        assert isinstance(network, FeedForwardSpec)
        mixture = ExpertsSpec(network, experts, top_k, False) if mixed[number] and experts > 1 else network
        return replace(block, attention=replace(block.dense, rotary=None), feed_forward=mixture)

    stack = _causal.each_layer(stack, varied)
    stack = _causal.beside_attention(config, stack, attends, lambda: _states(config, stack.hidden_size))
    return _causal.model(config, task, stack, tied=False)


def _every(config: Config, name: str, period: int, offset: int, count: int) -> list[bool]:
    """For each of `count` layers, tell whether it is `offset` behind a multiple of `period`.

    config.json may have others than these defaults. Raises CheckpointError for an offset that
    is no remainder.
    """
    period = config.integer(f"{name}_period", period)
    offset = config.integer(f"{name}_offset", offset)
    if not 0 <= offset < period:
        raise CheckpointError(
            f"{config.path}: '{name}_offset' is {offset}, expected 0 or more and less than "
            f"'{name}_period', which is {period}"
        )
    return [number % period == offset for number in range(count)]


def _states(config: Config, width: int) -> MambaSpec:
    """A Mamba layer, whose RMS norms have learned scales."""
    _causal.expect_silu(config, "a Mamba layer")
    automatic = config.values.get("mamba_dt_rank", "auto") == "auto"
    return MambaSpec(
        width,
        config.integer("mamba_expand", 2) * width,
        config.integer("mamba_d_state", 16),
        -(-width // 16) if automatic else config.integer("mamba_dt_rank"),
        config.integer("mamba_d_conv", 4),
        bias=config.flag("mamba_proj_bias", False),
        convolution_bias=config.flag("mamba_conv_bias", True),
        norm_eps=config.number("rms_norm_eps", 1e-6),
        norm_scale=True,
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with Mamba layers, and experts with tensors of their own."""
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    layer, network = f"{stack}.layers.{{i}}", "layers.{i}.feed_forward"
    rules: Rules = mamba.rules(f"{layer}.attention", "layers.{i}.mamba")
    rules |= {f"{layer}.attention.{name}_norm.*": f"layers.{{i}}.mamba.{name}_layernorm.*" for name in "bc"}
    rules[f"{layer}.attention.step_norm.*"] = "layers.{i}.mamba.dt_layernorm.*"
    rules[f"{layer}.feed_forward.router.*"] = f"{network}.router.*"
    mixtures = (block.feed_forward for block in spec.stack.blocks)
    experts = next((one.num_experts for one in mixtures if isinstance(one, ExpertsSpec)), 0)
    for name in ("gate", "up", "down"):
        rules[f"{layer}.feed_forward.{name}.*"] = f"{network}.{name}_proj.*"
        for number in range(experts):
            single = f"{network}.experts.{number}.{name}_proj.*"
            rules[f"{layer}.feed_forward.experts.{number}.{name}.*"] = single
    rules[f"{layer}.feed_forward_norm.*"] = "layers.{i}.pre_ff_layernorm.*"
    rules[f"{stack}.final_norm.*"] = "final_layernorm.*"
    return Table(inherited.rules | rules, NAMING, inherited.drop)
