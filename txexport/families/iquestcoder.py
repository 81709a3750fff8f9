"""IQuest-Coder V1 (IQuest Lab 2026): LLaMA with defaults of its own."""

from txexport.families import llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {
    "text-generation": ("LlamaForCausalLM", "IQuestCoderForCausalLM"),
    "feature-extraction": ("LlamaModel",),
}

NAMING = llama.NAMING
PUBLISHED_WITH_CODE = True
ORIGINAL_OF = "llama"
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config.expect(use_sliding_window=False, clip_qkv=None)
    config = config.with_defaults(num_key_value_heads=8, head_dim=128, rms_norm_eps=1e-5)
    return llama.spec(config, task, names)
