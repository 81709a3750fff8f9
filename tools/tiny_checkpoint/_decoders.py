"""Sizes of decoders whose layers are all attention and dense feedforward networks."""

from tiny_checkpoint._encoders import BERT
from tiny_checkpoint._vocabulary import IDS, VOCAB

GPT2 = {
    "vocab_size": VOCAB,
    "n_embd": 48,
    "n_layer": 2,
    "n_head": 3,
    "n_inner": 100,
    "n_positions": 40,
    **IDS,
}
OPT = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "ffn_dim": 100,
    "max_position_embeddings": 40,
    **IDS,
}
LLAMA = BERT | IDS | {"num_attention_heads": 6, "num_key_value_heads": 2}
GPT_NEO = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "num_layers": 3,
    "num_heads": 3,
    "intermediate_size": 100,
    "attention_types": [[["global", "local"], 1], [["global"], 1]],
    "window_size": 5,
    "max_position_embeddings": 40,
    **IDS,
}
MPT = {"vocab_size": VOCAB, "d_model": 48, "n_layers": 2, "n_heads": 3, "max_seq_len": 40, **IDS}
GEMMA2 = LLAMA | {
    "num_hidden_layers": 3,
    "head_dim": 10,
    "sliding_window": 5,
    "query_pre_attn_scalar": 13,
    "attn_logit_softcapping": 1.5,
    "final_logit_softcapping": 2.0,
}
GEMMA3 = LLAMA | {
    "num_hidden_layers": 3,
    "head_dim": 10,
    "sliding_window": 5,
    "sliding_window_pattern": 3,
    "query_pre_attn_scalar": 13,
}
GEMMA4 = LLAMA | {
    "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
    "num_kv_shared_layers": 2,
    "use_double_wide_mlp": True,
    "head_dim": 10,
    "global_head_dim": 14,
    "sliding_window": 5,
    "hidden_size_per_layer_input": 6,
    "vocab_size_per_layer_input": VOCAB,
    "final_logit_softcapping": 2.0,
}
GEMMA3N = LLAMA | {
    "num_hidden_layers": 5,
    "layer_types": [*["sliding_attention", "full_attention"] * 2, "sliding_attention"],
    "num_kv_shared_layers": 2,
    "intermediate_size": [100, 90, 90, 100, 80],
    "activation_sparsity_pattern": [0.7, 0.4, 0.0, 0.6, 0.0],
    "head_dim": 10,
    "sliding_window": 5,
    "hidden_size_per_layer_input": 6,
    "vocab_size_per_layer_input": VOCAB - 40,
    "altup_num_inputs": 3,
    "laurel_rank": 7,
    "final_logit_softcapping": 2.0,
}
XGLM = {
    "vocab_size": VOCAB,
    "d_model": 48,
    "num_layers": 2,
    "attention_heads": 3,
    "ffn_dim": 100,
    "max_position_embeddings": 40,
    **IDS,
}
EXAONE4 = LLAMA | {"num_hidden_layers": 3, "sliding_window": 5, "sliding_window_pattern": 2}
GRANITE = LLAMA | {
    "embedding_multiplier": 2.5,
    "attention_multiplier": 0.4,
    "residual_multiplier": 0.7,
    "logits_scaling": 1.6,
}
GRANITE_WINDOWS = {
    **{"num_hidden_layers": 5, "sliding_window": 5, "layer_rope_theta": [0, 1e4, 5e3, 1e4, 0]},
}
COHERE2 = LLAMA | {
    "num_hidden_layers": 3,
    "sliding_window": 5,
    "sliding_window_pattern": 2,
    "logit_scale": 0.3,
}
GROWING = {
    "rope_type": "yarn",
    "rope_theta": 1e4,
    "factor": 5.0,
    "original_max_position_embeddings": 8,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.4,
}
MINISTRAL3 = LLAMA | {"head_dim": 14, "rope_parameters": GROWING}
APERTUS = LLAMA | {
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 1e4,
        "factor": 8.0,
        "original_max_position_embeddings": 16,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }
}
