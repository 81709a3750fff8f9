"""HyperCLOVA X SEED (NAVER 2025): Granite with sandwich norm."""

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, granite, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, NormPlacement

TASKS = {"text-generation": ("HyperCLOVAXForCausalLM",), "feature-extraction": ("HyperCLOVAXModel",)}

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; logits are multiplied, where Granite's are divided."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    scale = config.number("attention_multiplier", config.head_dim(width, heads) ** -0.5)
    placement = NormPlacement.SANDWICH if config.flag("use_post_norm", True) else NormPlacement.PRE
    stack = granite.stack_spec(config, scale, placement)
    return _causal.model(config, task, stack, tied=False, scale=config.number("logits_scaling", 1.0))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with the norms after sublayers."""
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    rules: Rules = {}
    if spec.stack.blocks[0].placement == NormPlacement.SANDWICH:
        for number, name in enumerate(("attention", "feed_forward"), 1):
            rules[f"{stack}.layers.{{i}}.{name}_post_norm.*"] = f"layers.{{i}}.post_norm{number}.*"
    return Table(inherited.rules | rules, NAMING, inherited.drop)
