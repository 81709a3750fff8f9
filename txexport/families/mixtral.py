"""Mixtral (Jiang et al. 2024): Mistral with a mixture of experts in every layer."""

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, ExpertsSpec, FeedForwardSpec

TASKS = _causal.tasks("Mixtral")

NAMING = llama.NAMING
ALIASES = {"num_experts": "num_local_experts"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(rms_norm_eps=1e-5, num_key_value_heads=8, rope_theta=1e6)
    num_experts, top_k = config.count("num_local_experts", 8), config.integer("num_experts_per_tok", 2)

    def mixture(expert: FeedForwardSpec) -> ExpertsSpec:
        return ExpertsSpec(expert, num_experts, top_k)

    has_window = config.values.get("sliding_window") is not None
    window = config.integer("sliding_window") if has_window else None
    return llama.decoder_spec(config, task, windows=(window,), mixture=mixture)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with experts."""
    inherited, mixed = llama.table(spec), spec.stack.blocks[0].feed_forward
    layer, source = f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward", "layers.{i}.block_sparse_moe"
    rules: Rules = {f"{layer}.router.*": f"{source}.gate.*"}
    for number in range(mixed.num_experts if isinstance(mixed, ExpertsSpec) else 0):
        for ours, theirs in (("gate", "w1"), ("down", "w2"), ("up", "w3")):
            rules[f"{layer}.experts.{number}.{ours}.*"] = f"{source}.experts.{number}.{theirs}.*"
    return Table(inherited.rules | rules, NAMING, inherited.drop)
