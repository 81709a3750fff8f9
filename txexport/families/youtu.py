"""Youtu-LLM (Tencent 2025): multi-head latent attention in a dense decoder."""

from txexport.families import _causal, deepseek_v2, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("YoutuForCausalLM",), "feature-extraction": ("YoutuModel",)}

NAMING = llama.NAMING
PUBLISHED_WITH_CODE = True
table = deepseek_v2.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config.expect(mlp_bias=False)
    stack = deepseek_v2.latent_stack(config, apart=config.flag("rope_interleave", True))
    return _causal.model(config, task, stack, tied=True)
