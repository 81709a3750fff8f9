"""Sizes of decoders with states: convolutions, linear attention, state space models, recurrences."""

from tiny_checkpoint._decoders import GRANITE, LLAMA
from tiny_checkpoint._vocabulary import IDS, VOCAB

LFM2 = LLAMA | {
    "num_hidden_layers": 4,
    "layer_types": ["conv", "full_attention", "conv", "conv"],
    "block_auto_adjust_ff_dim": False,
}
LFM3 = LLAMA | {
    **{"num_hidden_layers": 5, "head_dim": 12, "conv_L_cache": 4, "sliding_window": 5},
    "layer_types": ["conv", "sliding_attention", "full_attention", "conv", "sliding_attention"],
}
QWEN3_5 = LLAMA | {
    "num_hidden_layers": 3,
    "head_dim": 12,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 10,
    "linear_value_head_dim": 10,
    "partial_rotary_factor": 0.5,
}
OLMO_HYBRID = LLAMA | {
    "num_hidden_layers": 3,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 10,
    "linear_value_head_dim": 14,
    "linear_conv_kernel_dim": 3,
    "rope_parameters": {"rope_type": "default", "rope_theta": None},
}
QWEN3_5_EXPERTS = {
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 28,
    "shared_expert_intermediate_size": 50,
}
QWEN3_NEXT = QWEN3_5 | QWEN3_5_EXPERTS
LFM2_MOE = LLAMA | {
    "num_hidden_layers": 4,
    "layer_types": ["conv", "full_attention", "conv", "conv"],
    "num_dense_layers": 1,
    "num_experts": 5,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 28,
}
MAMBA2 = {"mamba_n_heads": 4, "mamba_d_state": 10, "mamba_n_groups": 2, "mamba_d_conv": 3}
GRANITE_HYBRID = (
    GRANITE
    | MAMBA2
    | {
        "num_hidden_layers": 4,
        "layer_types": ["mamba", "attention", "mamba", "mamba"],
        "shared_intermediate_size": 50,
        "intermediate_size": 28,
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "position_embedding_type": "nope",
    }
)
BAMBA = LLAMA | MAMBA2 | {"num_hidden_layers": 3, "attn_layer_indices": [1]}
FALCON_H1 = (
    LLAMA
    | MAMBA2
    | {"mamba_d_ssm": 60, "embedding_multiplier": 2.3, "lm_head_multiplier": 0.6, "key_multiplier": 0.7}
    | {"attention_in_multiplier": 1.2, "attention_out_multiplier": 0.9, "mlp_multipliers": [0.8, 1.3]}
    | {"ssm_in_multiplier": 1.25, "ssm_out_multiplier": 0.4, "ssm_multipliers": [0.5, 0.8, 0.7, 1.5, 0.9]}
)
ZAMBA2 = IDS | {
    **{"vocab_size": VOCAB, "hidden_size": 40, "num_hidden_layers": 6, "max_position_embeddings": 40},
    "layers_block_type": ["linear_attention", *["hybrid"] * 3, "linear_attention", "linear_attention"],
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 50, "num_mem_blocks": 2},
    **{"n_mamba_heads": 4, "mamba_d_state": 10, "mamba_ngroups": 2, "mamba_d_conv": 3, "chunk_size": 16},
    **{"adapter_rank": 6, "use_mem_rope": True},
}
RECURRENT_GEMMA = IDS | {
    **{"vocab_size": VOCAB, "hidden_size": 48, "num_hidden_layers": 4, "intermediate_size": 102},
    **{"num_attention_heads": 6, "num_key_value_heads": 2, "attention_window_size": 5},
    **{"lru_width": 60, "conv1d_width": 3, "logits_soft_cap": 2.0},
}
NEMOTRON_H = IDS | {
    **{"vocab_size": VOCAB, "hidden_size": 48, "max_position_embeddings": 40},
    "layers_block_type": ["linear_attention", "moe", "linear_attention", "full_attention", "mlp"],
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10, "intermediate_size": 70},
    **{"mamba_num_heads": 4, "mamba_head_dim": 15, "ssm_state_size": 10, "n_groups": 2, "conv_kernel": 3},
    **{"n_routed_experts": 5, "moe_intermediate_size": 28, "moe_shared_expert_intermediate_size": 30},
    "chunk_size": 16,
}
MAMBA2_ALONE = IDS | {
    **{"vocab_size": VOCAB, "hidden_size": 48, "num_hidden_layers": 3, "num_heads": 6, "head_dim": 16},
    **{"state_size": 10, "n_groups": 2, "conv_kernel": 3, "chunk_size": 16},
}
MAMBA = IDS | {
    **{"vocab_size": VOCAB, "hidden_size": 48, "num_hidden_layers": 3, "state_size": 7, "conv_kernel": 3},
    **{"time_step_rank": 5, "tie_word_embeddings": False},
}
RWKV = IDS | {
    **{"vocab_size": VOCAB, "hidden_size": 48, "num_hidden_layers": 3, "intermediate_size": 100},
    **{"context_length": 40, "rescale_every": 2, "layer_norm_epsilon": 0.01},
}
JAMBA = IDS | {
    **{"vocab_size": VOCAB, "hidden_size": 48, "num_hidden_layers": 5, "max_position_embeddings": 40},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 72},
    **{"attn_layer_period": 3, "attn_layer_offset": 1, "num_experts": 5, "num_experts_per_tok": 2},
    **{"mamba_d_state": 7, "mamba_d_conv": 3, "mamba_dt_rank": 5},
}
KIMI_LINEAR = LLAMA | {
    **{"num_hidden_layers": 3, "num_attention_heads": 3, "num_key_value_heads": 3, "qk_rope_head_dim": 7},
    **{"kv_lora_rank": 18, "qk_nope_head_dim": 10, "v_head_dim": 14},
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "linear_num_heads": 5,
    "linear_head_dim": 10,
    "linear_conv_kernel_dim": 3,
    "moe_intermediate_size": 28,
    "num_local_experts": 8,
    "n_shared_experts": 2,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
}
