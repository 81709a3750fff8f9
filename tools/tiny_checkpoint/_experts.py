"""Sizes of decoders with a mixture of experts, and of those with DeepSeek's latent attention."""

from tiny_checkpoint._decoders import GRANITE, GROWING, LLAMA
from tiny_checkpoint._vocabulary import IDS, VOCAB

PHIMOE = {"num_local_experts": 5, "attention_bias": True, "lm_head_bias": True, "router_jitter_noise": 0.2}
EXAONE_MOE = LLAMA | {
    **{"num_hidden_layers": 4, "sliding_window": 5, "sliding_window_pattern": 2, "head_dim": 10},
    **{"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 28, "num_shared_experts": 2},
}
GPT_OSS = LLAMA | {
    "num_hidden_layers": 3,
    "head_dim": 10,
    "intermediate_size": 28,
    "sliding_window": 5,
    "swiglu_limit": 0.3,
    "num_local_experts": 5,
    "num_experts_per_tok": 2,
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 150000.0,
        "factor": 4.0,
        "truncate": False,
        "original_max_position_embeddings": 10,
    },
}
GRANITEMOE = GRANITE | {"intermediate_size": 28, "num_local_experts": 5, "num_experts_per_tok": 2}
QWEN3_MOE = LLAMA | {
    "num_hidden_layers": 3,
    "mlp_only_layers": [1],
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 28,
}
DBRX = IDS | {
    **{"vocab_size": VOCAB, "d_model": 48, "n_heads": 6, "n_layers": 2, "max_seq_len": 40},
    "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.4, "rope_theta": 1e4},
    "ffn_config": {"ffn_hidden_size": 28, "moe_num_experts": 5, "moe_top_k": 2},
}
LLAMA4 = LLAMA | {
    **{"num_hidden_layers": 4, "head_dim": 10, "no_rope_layer_interval": 2, "attention_chunk_size": 5},
    **{
        "intermediate_size": 28,
        "intermediate_size_mlp": 70,
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
    },
    **{"moe_layers": [1, 2], "floor_scale": 5},
}
MELLUM = LLAMA | {
    **{"num_hidden_layers": 4, "head_dim": 10, "sliding_window": 5},
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "mlp_layer_types": ["sparse", "sparse", "dense", "sparse"],
    **{"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 28},
}
DEEPSEEK = LLAMA | {
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "q_lora_rank": 20,
    "kv_lora_rank": 18,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 8,
    "v_head_dim": 14,
    "moe_intermediate_size": 28,
    "n_routed_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "first_k_dense_replace": 1,
}
GLM4_MOE = LLAMA | {
    "num_hidden_layers": 3,
    "head_dim": 12,
    "moe_intermediate_size": 28,
    "n_routed_experts": 5,
    "num_experts_per_tok": 2,
}
QWEN2_MOE = QWEN3_MOE | {"shared_expert_intermediate_size": 50}
LATENT = {name: DEEPSEEK[name] for name in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim")}
YOUTU = LLAMA | LATENT | {"num_attention_heads": 3, "num_key_value_heads": 3, "qk_rope_head_dim": 8}
YOUTU |= {"pad_token_id": None}  # whose row of the word embedding transformers sets to 0
MINICPM3 = YOUTU | {"v_head_dim": None, "scale_depth": 1.1, "dim_model_base": 30}
GLM4_MOE_LITE = {name: value for name, value in DEEPSEEK.items() if name != "first_k_dense_replace"}
GLM4_MOE_LITE |= {"mlp_layer_types": ["dense", "sparse", "sparse"]}
DOTS1 = GLM4_MOE | {
    "n_shared_experts": 2,
    "first_k_dense_replace": 1,
    "sliding_window": 5,
    "max_window_layers": 2,
}
MINIMAX_M2 = LLAMA | {"head_dim": 12, "num_local_experts": 5, "num_experts_per_tok": 2, "rotary_dim": 6}
ERNIE_MOE = LLAMA | {"num_hidden_layers": 3, "moe_intermediate_size": 28}
ERNIE_MOE |= {"moe_num_experts": 5, "moe_k": 2, "moe_num_shared_experts": 2}
HUNYUAN_MOE = LLAMA | {"head_dim": 10, "num_experts": 5, "moe_topk": 2}
COHERE2_MOE = LLAMA | {
    **{"num_hidden_layers": 4, "head_dim": 10, "sliding_window": 5, "logit_scale": 0.3, "num_experts": 5},
    **{"num_experts_per_tok": 2, "intermediate_size": 28, "prefix_dense_intermediate_size": 70},
    **{"sliding_window_pattern": 2, "first_k_dense_replace": 1, "num_shared_experts": 2},
}
MISTRAL4 = DEEPSEEK | {
    "n_group": 1,
    "topk_group": 1,
    "rope_parameters": GROWING | {"partial_rotary_factor": 8 / 18},
}
AFMOE = LLAMA | {
    "num_hidden_layers": 3,
    "head_dim": 10,
    "sliding_window": 5,
    "global_attn_every_n_layers": 2,
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "num_shared_experts": 2,
    "moe_intermediate_size": 28,
    "route_scale": 1.7,
    "mup_enabled": True,
}
