"""VaultGemma (Google 2025): Gemma 2 with norms before each sublayer, and none after it."""

from txexport.families import gemma2
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, NormPlacement

TASKS = {"text-generation": ("VaultGemmaForCausalLM",), "feature-extraction": ("VaultGemmaModel",)}

NAMING = gemma2.NAMING
table = gemma2.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return gemma2.decoder_spec(config, task, NormPlacement.PRE)
