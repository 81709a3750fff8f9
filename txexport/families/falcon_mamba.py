"""Falcon-Mamba (Zuo et al. 2024): Mamba with RMS norms, without a scale, of what inputs select."""

from txexport.families import _causal, mamba, mamba2
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("FalconMambaForCausalLM",)}

NAMING = mamba2.NAMING
table = mamba.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; there is no limit of positions."""
    layer = mamba.layer(config, norm_eps=config.number("mixer_rms_eps", 1e-6))
    return _causal.model(config, task, mamba2.stack_spec(config, layer), tied=True)
