"""Granite Swash with experts (IBM 2026), and a shared network beside them or none."""

from txexport.checkpoints.weight_map import Rules, Table, taken
from txexport.families import granite_swa, granitemoe, granitemoeshared
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {
    "text-generation": ("GraniteMoeSWAForCausalLM",),
    "feature-extraction": ("GraniteMoeSWAModel",),
}

NAMING = granitemoe.NAMING
WITHOUT_OUTPUTS = granite_swa.WITHOUT_OUTPUTS
RENAMED = {
    "input_linear.weight": "experts.gate_up_proj",
    "output_linear.weight": "experts.down_proj",
    "router.layer": "router",
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; a width of 0 means no shared network."""
    stack = granitemoe.stack_spec(config, granitemoeshared.shared_size(config))
    return granitemoe.decoder_spec(config, task, granite_swa.with_windows(config, stack))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Granite MoE's with a shared network, with sinks and other names of the experts."""
    inherited = granitemoeshared.table(spec)
    rules: Rules = {key: taken(rule).renamed(_renamed) for key, rule in inherited.rules.items()}
    return Table(rules | granite_swa.sinks(spec), NAMING, inherited.drop)


def _renamed(name: str) -> str:
    """The name of a tensor of Granite MoE here."""
    for old, new in RENAMED.items():
        name = name.replace(f"block_sparse_moe.{old}", f"block_sparse_moe.{new}")
    return name
