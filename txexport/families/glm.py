"""GLM-4 (GLM Team 2024): LLaMA with interleaved RoPE on half of a head, fused gate and up."""

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, TextStackSpec

TASKS = _causal.tasks("Glm", spans=False)

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return _causal.model(config, task, stack_spec(config), tied=False)


def stack_spec(config: Config) -> TextStackSpec:
    """The stack."""
    config = config.with_defaults(
        head_dim=128, num_key_value_heads=2, partial_rotary_factor=0.5, rms_norm_eps=1.5625e-7
    )
    bias = config.flag("attention_bias", True)
    return _causal.interleaved(llama.stack_spec(config, bias=bias, fraction="partial_rotary_factor"))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's; gate and up are stored in one tensor."""
    inherited, layer = llama.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward"
    rules: Rules = {
        f"{layer}.gate.*": Take("layers.{i}.mlp.gate_up_proj.*", part=0, parts=2),
        f"{layer}.up.*": Take("layers.{i}.mlp.gate_up_proj.*", part=1, parts=2),
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
