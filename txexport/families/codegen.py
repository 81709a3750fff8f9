"""CodeGen (Nijkamp et al. 2022): GPT-J with fused projections, split over four TPU cores."""

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.errors import CheckpointError
from txexport.families import _causal, gptj
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("CodeGenForCausalLM",), "feature-extraction": ("CodeGenModel",)}

NAMING = gptj.NAMING
ALIASES = gptj.ALIASES
CORES = 4  # fixed in the original, not in config.json


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    if config.integer("n_head") % CORES:
        raise CheckpointError(
            f"{config.path}: {config.integer('n_head')} heads, expected a multiple of {CORES}"
        )
    return gptj.spec(config, task, names)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As GPT-J's; each core stores its heads' queries, then values, then keys."""
    inherited, layer = gptj.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}.attention"
    rules: Rules = {
        f"{layer}.{name}.*": Take("h.{i}.attn.qkv_proj.*", part=part, parts=3, groups=CORES)
        for part, name in enumerate("qvk")
    }
    buffers = ("h.*.attn.causal_mask",)
    return Table(inherited.rules | rules, NAMING, (*inherited.drop, *buffers))
