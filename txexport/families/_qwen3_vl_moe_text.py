"""The decoder of Qwen3-VL with experts (Bai et al. 2025): Qwen3-MoE's, with normalised weights of experts."""

from txexport.families import qwen3_moe
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

NAMING = qwen3_moe.NAMING
table = qwen3_moe.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.renamed(qwen3_moe.ALIASES).with_defaults(num_local_experts=60, num_experts_per_tok=4)
    config.expect(norm_topk_prob=True, use_sliding_window=False)
    return qwen3_moe.spec(config.replaced(norm_topk_prob=True), task, names)
