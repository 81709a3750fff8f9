"""Granite MoE with a shared network (IBM 2024) beside the experts of every layer."""

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, granitemoe
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {
    "text-generation": ("GraniteMoeSharedForCausalLM",),
    "feature-extraction": ("GraniteMoeSharedModel",),
}

NAMING = granitemoe.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return granitemoe.decoder_spec(config, task, granitemoe.stack_spec(config, shared_size(config)))


def shared_size(config: Config) -> int | None:
    """The width of the shared network; 0 means that there is none."""
    has_shared = config.values.get("shared_intermediate_size", 0) != 0
    return config.integer("shared_intermediate_size") if has_shared else None


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Granite MoE's; one tensor holds the shared gate rows and up rows."""
    inherited, shared = granitemoe.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward.shared"
    return Table(inherited.rules | shared_rules(shared), NAMING, inherited.drop)


def shared_rules(network: str) -> Rules:
    """Tensor names of the shared network."""
    both = "layers.{i}.shared_mlp.input_linear.*"
    return {
        f"{network}.gate.*": Take(both, part=0, parts=2),
        f"{network}.up.*": Take(both, part=1, parts=2),
        f"{network}.down.*": "layers.{i}.shared_mlp.output_linear.*",
    }
