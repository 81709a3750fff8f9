"""EXAONE 3 and 3.5 (LG AI Research 2024): LLaMA, whose tensors have GPT-2's names."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {
    "text-generation": ("LlamaForCausalLM", "ExaoneForCausalLM"),
    "feature-extraction": ("LlamaModel",),
}

PUBLISHED = {
    **{f"attn.attention.{name}_proj": f"self_attn.{name}_proj" for name in "qkv"},
    "attn.attention.out_proj": "self_attn.o_proj",
    "ln_1": "input_layernorm",
    "ln_2": "post_attention_layernorm",
    "mlp.c_fc_0": "mlp.gate_proj",
    "mlp.c_fc_1": "mlp.up_proj",
    "mlp.c_proj": "mlp.down_proj",
}
NAMING = Naming(
    "transformer.",
    {f"{old}.{one}": f"{new}.{one}" for old, new in PUBLISHED.items() for one in ("weight", "bias")}
    | {"wte.weight": "embed_tokens.weight", "ln_f.weight": "norm.weight"},
    others=("model.",),
)
ALIASES = {
    "num_layers": "num_hidden_layers",
    "layer_norm_epsilon": "rms_norm_eps",
    "activation_function": "hidden_act",
}
PUBLISHED_WITH_CODE = True
ORIGINAL_OF = "llama"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(num_key_value_heads=8, rms_norm_eps=1e-5, rope_theta=500_000.0)
    return llama.spec(config, task, names)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's; transformers saves a model with a head by the published names, and one without by both."""
    inherited = llama.table(spec)
    rules: Rules = dict(inherited.rules)
    for name, source in inherited.rules.items():
        if isinstance(source, str) and source.startswith("layers."):
            rules[name] = Take(source, fallback=f"h.{source.removeprefix('layers.')}")
    return Table(rules, NAMING, (*inherited.drop, "h.*.attn.attention.rotary.inv_freq"))
