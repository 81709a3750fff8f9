"""Nemotron-H and Nemotron 3 (NVIDIA 2025): each layer is Mamba-2, attention, a network or experts."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _causal, _mamba2, arcee, deepseek_v3
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    Mamba2Spec,
    TextStackSpec,
)

TASKS = {"text-generation": ("NemotronHForCausalLM",)}
PUBLISHED_WITH_CODE = True

NAMING = Naming("backbone.", others=("model.",))
ALIASES = {"layer_types": "layers_block_type", "num_local_experts": "n_routed_experts"}
OLDER = {  # names that older files have
    "mamba_n_groups": "n_groups",
    "mamba_d_conv": "conv_kernel",
    "mamba_conv_bias": "use_conv_bias",
    "mamba_dt_limit": "time_step_limit",
    "mamba_dt_min": "time_step_min",
}
SETTINGS = {  # Bamba's names of them, and the default
    "mamba_num_heads": ("mamba_n_heads", 128),
    "mamba_head_dim": ("mamba_d_head", 64),
    "ssm_state_size": ("mamba_d_state", 128),
    "n_groups": ("mamba_n_groups", 8),
    "conv_kernel": ("mamba_d_conv", 4),
    "use_bias": ("mamba_proj_bias", False),
    "use_conv_bias": ("mamba_conv_bias", True),
    "mamba_hidden_act": ("hidden_act", "silu"),
    "layer_norm_epsilon": ("rms_norm_eps", 1e-5),
}
STATES, ATTENTION, NETWORK, EXPERTS = "linear_attention", "full_attention", "mlp", "moe"
LETTERS = {"M": STATES, "*": ATTENTION, "-": NETWORK, "E": EXPERTS}  # of hybrid_override_pattern
NAMES = {one: one for one in LETTERS.values()} | {"mamba": STATES, "attention": ATTENTION}
WITHOUT_OUTPUTS = {"hidden_states": "the original returns them behind every sublayer"}
NO_FLOOR = 1e-30  # a time step that changes no state


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; attention has no positions, and nothing is tied."""
    config = config.renamed(OLDER).replaced(tie_word_embeddings=False)
    config.expect(sliding_window=None, mlp_bias=False)
    return _causal.model(config, task, stack_spec(config), tied=False)


def stack_spec(config: Config) -> TextStackSpec:
    """The stack; a block has Mamba-2 or attention of one layer, and the network of the next, if any."""
    blocks = _blocks(config)
    values = {"num_hidden_layers": len(blocks), "hidden_act": config.values.get("mlp_hidden_act", "relu2")}
    values |= {"rms_norm_eps": config.number("layer_norm_epsilon", 1e-5), "attention_bias": False}
    values |= {"rope_parameters": None, "rope_scaling": None}
    dense = config.with_defaults(
        num_attention_heads=32, num_key_value_heads=8, head_dim=128, intermediate_size=21_504
    )
    stack = arcee.stack_spec(dense.replaced(**values))
    states = _causal.beside_attention(
        config,
        _causal.each_layer(
            stack, lambda _, block: replace(block, attention=replace(block.dense, rotary=None))
        ),
        [mixer == ATTENTION for mixer, _ in blocks],
        lambda: _states(config, stack.hidden_size),
    )

    def varied(number: int, block: BlockSpec) -> BlockSpec:
        _, network = blocks[number]
        if network is None:
            return replace(block, feed_forward=None)
        assert isinstance(block.feed_forward, FeedForwardSpec)
        return (
            replace(block, feed_forward=_experts(config, block.feed_forward)) if network == EXPERTS else block
        )

    return _causal.each_layer(states, varied)


def spelt_out(config: Config) -> tuple[Mapping[str, Any], str]:
    """config.json without a smallest time step."""
    limits = ("mamba_dt_min", "mamba_dt_limit", "time_step_limit")
    values = {name: value for name, value in config.values.items() if name not in limits}
    note = (
        "time steps have no limit, as time_step_limit says. transformers takes time_step_min for a limit, in "
        "prompts alone; it is held against transformers without one"
    )
    return values | {"time_step_min": NO_FLOOR}, note


def _blocks(config: Config) -> list[tuple[str, str | None]]:
    """The kind of attention or state of each block, and of its network, if any. Raises UnsupportedError."""
    kinds = _kinds(config)
    blocks: list[tuple[str, str | None]] = []
    for number, kind in enumerate(kinds):
        if kind in (STATES, ATTENTION):
            blocks.append((kind, None))
        elif blocks and blocks[-1][1] is None:
            blocks[-1] = blocks[-1][0], kind
        else:
            raise UnsupportedError(
                f"{config.path}: layer {number} is {kind!r}, expected it after one of {STATES!r} or "
                f"{ATTENTION!r}"
            )
    return blocks


def _kinds(config: Config) -> list[str]:
    """The kind of each layer. Raises UnsupportedError for one that is not known."""
    written = config.strings("layers_block_type")
    if not written and config.values.get("hybrid_override_pattern") is not None:
        written = [LETTERS.get(one, one) for one in config.text("hybrid_override_pattern")]
    kinds = [NAMES.get(one, one) for one in written or (STATES, EXPERTS, ATTENTION, NETWORK)]
    unknown = next((one for one in kinds if one not in NAMES), None)
    if unknown is not None:
        raise UnsupportedError(
            f"{config.path}: a layer is {unknown!r}, expected {', '.join(LETTERS.values())}, or of "
            f"hybrid_override_pattern {', '.join(LETTERS)}"
        )
    return kinds


def _states(config: Config, width: int) -> Mamba2Spec:
    """A Mamba-2 layer, whose heads give its width."""
    inner = config.integer("mamba_num_heads", 128) * config.integer("mamba_head_dim", 64)
    return _mamba2.layer(_mamba2.renamed(config, SETTINGS), width, inner)


def _experts(config: Config, network: FeedForwardSpec) -> ExpertsSpec:
    """Experts beside a shared one; with moe_latent_size they read a projection of a token."""
    width = config.integer("moe_intermediate_size", 7688)
    shared = config.integer("moe_shared_expert_intermediate_size", 7688)
    expert = replace(network, intermediate_size=width)
    latent = config.values.get("moe_latent_size") is not None
    if latent:
        expert = replace(expert, hidden_size=config.integer("moe_latent_size"))
    return ExpertsSpec(
        expert,
        config.count("n_routed_experts", 8),
        config.integer("num_experts_per_tok", 2),
        shared=replace(network, intermediate_size=shared),
        shared_gated=False,
        token_size=network.hidden_size if latent else None,
        **deepseek_v3.corrected(config, num_groups=1, top_groups=1, scale=1.0),
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; multi-token prediction is left out."""
    stack = _causal.stack_name(spec)
    rules: Rules = {
        f"{stack}.embedding.word.weight": "embeddings.weight",
        f"{stack}.final_norm.weight": "norm_f.weight",
    }
    layer = 0
    for number, block in enumerate(spec.stack.layers):
        ours = f"{stack}.layers.{number}"
        rules[f"{ours}.attention_norm.weight"] = f"layers.{layer}.norm.weight"
        rules |= _mixer_rules(block, f"{ours}.attention", f"layers.{layer}.mixer")
        layer += 1
        if block.feed_forward is not None:
            rules[f"{ours}.feed_forward_norm.weight"] = f"layers.{layer}.norm.weight"
            rules |= dict(_network_rules(block, f"{ours}.feed_forward", f"layers.{layer}.mixer"))
            layer += 1
    return Table(rules | _causal.head_rules(spec), NAMING, ("mtp.*", *_causal.other_heads(spec)))


def _mixer_rules(block: BlockSpec, ours: str, theirs: str) -> Rules:
    """The tensors of Mamba-2 or of attention."""
    if isinstance(block.attention, Mamba2Spec):
        return _mamba2.rules(ours, theirs)
    return {f"{ours}.{name}.weight": f"{theirs}.{name}_proj.weight" for name in "qkvo"}


def _network_rules(block: BlockSpec, ours: str, theirs: str) -> Iterator[tuple[str, str | Take]]:
    """The tensors of a network, or of experts, which older versions stack."""
    mixture = block.feed_forward
    for name in ("up", "down"):
        if not isinstance(mixture, ExpertsSpec):
            yield f"{ours}.{name}.weight", f"{theirs}.{name}_proj.weight"
            continue
        yield f"{ours}.shared.{name}.weight", f"{theirs}.shared_experts.{name}_proj.weight"
        for number in range(mixture.num_experts):
            together = Take(f"{theirs}.experts.{name}_proj", expert=number, experts=mixture.num_experts)
            single = Take(f"{theirs}.experts.{number}.{name}_proj.weight", fallback=together)
            yield f"{ours}.experts.{number}.{name}.weight", single
    if isinstance(mixture, ExpertsSpec):
        yield f"{ours}.router.weight", f"{theirs}.gate.weight"
        yield f"{ours}.router.correction", f"{theirs}.gate.e_score_correction_bias"
        yield f"{ours}.latent_down.weight", f"{theirs}.fc1_latent_proj.weight"
        yield f"{ours}.latent_up.weight", f"{theirs}.fc2_latent_proj.weight"
