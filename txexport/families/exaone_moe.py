"""K-EXAONE (LG AI Research 2026): EXAONE 4's attention, pre-norm, with the experts of DeepSeek-V3."""

from txexport.checkpoints.weight_map import Table, Take
from txexport.families import _causal, deepseek_v2, deepseek_v3, exaone4, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, NormPlacement

TASKS = {"text-generation": ("ExaoneMoeForCausalLM",), "feature-extraction": ("ExaoneMoeModel",)}

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(
        moe_intermediate_size=1024, num_experts=64, num_experts_per_tok=8, num_shared_experts=1
    )
    config = config.renamed({"num_experts": "n_routed_experts", "num_shared_experts": "n_shared_experts"})
    stack = exaone4.stack_spec(config, NormPlacement.PRE)
    router = deepseek_v3.corrected(config, num_groups=1, top_groups=1, scale=2.5)
    mixed = deepseek_v2.mixed(config.replaced(first_k_dense_replace=0), stack, 0, **router).layers
    dense = config.dense_layers(1)
    stack = _causal.each_layer(stack, lambda layer, block: block if dense[layer] else mixed[layer])
    return _causal.model(config, task, stack, tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As DeepSeek-V3's experts, with another name of the correction; `mtp` predicts further tokens."""
    inherited = deepseek_v2.experts_table(spec)
    network = f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward"
    source = "layers.{i}.mlp.e_score_correction_bias"
    correction = Take("layers.{i}.mlp.gate.e_score_correction_bias", fallback=source)
    rules = inherited.rules | {f"{network}.router.correction": correction}
    return Table(rules, NAMING, (*inherited.drop, "mtp.*"))
