"""Mistral 4 (Mistral AI 2026): latent attention and experts, with queries that grow with their positions."""

from txexport.families import _causal, deepseek_v2, llama
from txexport.families._config import Config, TensorNames
from txexport.families._rope import scaling
from txexport.families.ministral3 import ROPE, growing, with_rope
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("Mistral4", spans=False)

NAMING = llama.NAMING
ORIGINALS = ("Mistral4ForCausalLM",)
ALIASES = {"num_local_experts": "n_routed_experts"}
table = deepseek_v2.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; weights are softmax scores of the chosen experts."""
    config = config.with_defaults(
        num_key_value_heads=32,
        q_lora_rank=1024,
        kv_lora_rank=256,
        qk_nope_head_dim=64,
        moe_intermediate_size=2048,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=4,
    )
    config.expect(n_group=1, topk_group=1)
    config = with_rope(
        config, ROPE | {"rope_theta": 1e4, "factor": 128.0, "original_max_position_embeddings": 8192}
    )
    content, size = config.integer("qk_nope_head_dim"), config.integer("qk_rope_head_dim", 64)
    values, _ = scaling(config)
    config.expect(head_dim=content + size)
    values.expect(partial_rotary_factor=size / (content + size))
    plain = {name: value for name, value in values.values.items() if name != "partial_rotary_factor"}
    config = config.replaced(rope_parameters=plain)
    stack = deepseek_v2.latent_stack(config, apart=config.flag("rope_interleave", True))
    mixed = deepseek_v2.mixed(
        config,
        stack,
        0,
        normalised=config.flag("norm_topk_prob", True),
        scale=config.number("routed_scaling_factor", 1.0),
    )
    return _causal.model(config, task, growing(config, mixed), tied=False)
