"""Small random checkpoints in transformers' format, with a tokenizer: for tests and demonstrations.

python tools/tiny_checkpoint.py gpt2 FOLDER

Weights are drawn so that a missing term is always detected: no norm scale is 1 and no bias is 0.
"""

import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer

VOCAB = 311  # prime, and enough for the 256 bytes, the special tokens and a few merges
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
CORPUS = ["the cat sat on the mat and the dog lay on the rug"] * 8
IDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}

BERT = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 100,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
}
XLM = {
    "vocab_size": VOCAB,
    "emb_dim": 48,
    "n_layers": 2,
    "n_heads": 3,
    "max_position_embeddings": 40,
    "n_langs": 1,
}
FNET = {key: value for key, value in BERT.items() if key != "num_attention_heads"}
LAYOUTLMV3 = BERT | {
    "coordinate_size": 7,
    "shape_size": 10,
    "rel_pos_bins": 10,
    "max_rel_pos": 14,
    "rel_2d_pos_bins": 12,
    "max_rel_2d_pos": 50,
    "input_size": 14,
    "patch_size": 4,
}
DISTILBERT = {
    "vocab_size": VOCAB,
    "dim": 48,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 100,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
}
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
AST = {
    **{"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 100},
    **{"patch_size": 6, "frequency_stride": 4, "time_stride": 5, "num_mel_bins": 17, "max_length": 33},
}
WAV2VEC2 = {
    **{"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 100},
    **{"conv_dim": [16, 20, 24], "conv_kernel": [10, 3, 2], "conv_stride": [5, 2, 2], "vocab_size": 32},
    **{"num_feat_extract_layers": 3, "num_conv_pos_embeddings": 6, "num_conv_pos_embedding_groups": 4},
}
SEW = WAV2VEC2 | {"squeeze_factor": 2}
DATA2VEC_AUDIO = WAV2VEC2 | {"num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 5}
WAV2VEC2_BERT = {
    **{"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 100},
    **{"feature_projection_input_dim": 22, "conv_depthwise_kernel_size": 5, "vocab_size": 32},
    **{"left_max_position_embeddings": 6, "right_max_position_embeddings": 3},
}
OMNIASR = {
    "vocab_size": 32,
    "audio_config": {
        **{"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 100},
        **{"conv_dim": [16, 20, 24], "conv_kernel": [10, 3, 2], "conv_stride": [5, 2, 2]},
        **{"num_conv_pos_embeddings": 6, "num_conv_pos_embedding_groups": 4},
    },
}
PARAKEET = {
    "vocab_size": 32,
    "pad_token_id": 31,
    "encoder_config": {
        **{"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 100},
        **{"conv_kernel_size": 5, "subsampling_conv_channels": 10, "num_mel_bins": 16},
    },
}
LLAMA = BERT | IDS | {"num_attention_heads": 6, "num_key_value_heads": 2}
PHIMOE = {"num_local_experts": 5, "attention_bias": True, "lm_head_bias": True, "router_jitter_noise": 0.2}
XLNET = {"vocab_size": VOCAB, "d_model": 48, "n_layer": 2, "n_head": 3, "d_inner": 100, "pad_token_id": 1}
LONGFORMER = BERT | {"num_hidden_layers": 3, "type_vocab_size": 1, "attention_window": [4, 8, 4]}
DEBERTA = BERT | {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "position_buckets": 8,
    "max_relative_positions": 20,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
}
ESM = BERT | {
    "position_embedding_type": "rotary",
    "emb_layer_norm_before": False,
    "token_dropout": True,
    "mask_token_id": 4,
}
MODERNBERT = BERT | {
    "num_hidden_layers": 5,
    "local_attention": 6,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "cls_token_id": 0,
    "sep_token_id": 2,
}
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
GEMMA4_WITH_IMAGES = {
    "text_config": GEMMA4 | {"model_type": "gemma4_text"},
    "vision_config": {
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "position_embedding_size": 16,
    },
    "audio_config": {
        "hidden_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "subsampling_conv_channels": [4, 2],
        "output_proj_dims": 20,
    },
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
EXAONE_MOE = LLAMA | {
    **{"num_hidden_layers": 4, "sliding_window": 5, "sliding_window_pattern": 2, "head_dim": 10},
    **{"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 28, "num_shared_experts": 2},
}
GRANITE = LLAMA | {
    "embedding_multiplier": 2.5,
    "attention_multiplier": 0.4,
    "residual_multiplier": 0.7,
    "logits_scaling": 1.6,
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
GRANITEMOE = GRANITE | {"intermediate_size": 28, "num_local_experts": 5, "num_experts_per_tok": 2}
GRANITE_WINDOWS = {
    **{"num_hidden_layers": 5, "sliding_window": 5, "layer_rope_theta": [0, 1e4, 5e3, 1e4, 0]},
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
COHERE2 = LLAMA | {
    "num_hidden_layers": 3,
    "sliding_window": 5,
    "sliding_window_pattern": 2,
    "logit_scale": 0.3,
}
COHERE2_MOE = LLAMA | {
    **{"num_hidden_layers": 4, "head_dim": 10, "sliding_window": 5, "logit_scale": 0.3, "num_experts": 5},
    **{"num_experts_per_tok": 2, "intermediate_size": 28, "prefix_dense_intermediate_size": 70},
    **{"sliding_window_pattern": 2, "first_k_dense_replace": 1, "num_shared_experts": 2},
}
BART = {
    "vocab_size": VOCAB,
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 100,
    "decoder_ffn_dim": 90,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 2,
    "forced_eos_token_id": None,
    **IDS,
}

MARIAN = BART | {"decoder_start_token_id": 1, "activation_function": "swish", "scale_embedding": True}
WHISPER = BART | {
    "num_mel_bins": 11,
    "max_source_positions": 21,
    "max_target_positions": 40,
    "decoder_start_token_id": 3,
}
SPEECH_TO_TEXT = BART | {
    **{"input_feat_per_channel": 11, "conv_channels": 20, "conv_kernel_sizes": [5, 3]},
    **{"max_source_positions": 70, "max_target_positions": 40, "bos_token_id": 0, "pad_token_id": 1},
}
MOONSHINE = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 100,
    "encoder_num_hidden_layers": 2,
    "decoder_num_hidden_layers": 3,
    "encoder_num_attention_heads": 3,
    "decoder_num_attention_heads": 3,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 3,
    **IDS,
}
VIT = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 100,
    "image_size": 30,
    "patch_size": 6,
}
OWLVIT = {
    "projection_dim": 48,
    "text_config": {
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 100,
        "max_position_embeddings": 16,
        "vocab_size": VOCAB,
    },
    "vision_config": VIT | {"image_size": 30, "patch_size": 6},
}
CLIPSEG = OWLVIT | {
    "projection_dim": 40,
    **{"reduce_dim": 20, "decoder_num_attention_heads": 2, "decoder_intermediate_size": 50},
    **{"extract_layers": [0, 2, 1], "conditional_layer": 1},
    "text_config": OWLVIT["text_config"] | {"eos_token_id": VOCAB - 1, "bos_token_id": 0},
    "vision_config": VIT | {"num_hidden_layers": 4},
}
# Of ClapFeatureExtractor, for the tiny model: a second in up to 128 frames.
CLAP_SOUNDS = {
    **{"feature_size": 8, "sampling_rate": 8000, "hop_length": 80, "max_length_s": 1},
    **{"fft_window_size": 256, "frequency_max": 3500, "truncation": "rand_trunc"},
}
CLAP = {
    "projection_dim": 22,
    "text_config": {
        "hidden_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 100,
        "max_position_embeddings": 40,
        "vocab_size": VOCAB,
        "type_vocab_size": 1,
    },
    "audio_config": {
        "spec_size": 32,
        "num_mel_bins": 8,
        "patch_size": 2,
        "patch_stride": [2, 2],
        "window_size": 4,
        "patch_embeds_hidden_size": 12,
        "hidden_size": 48,
        "depths": [2, 1, 2],
        "num_attention_heads": [2, 3, 4],
        "mlp_ratio": 2.0,
    },
}
DEPTH = {
    "backbone_config": VIT
    | {"model_type": "dinov2", "mlp_ratio": 2, "num_hidden_layers": 5, "out_indices": [1, 3, 4, 5]}
    | {"reshape_hidden_states": False},
    "patch_size": 6,
    "reassemble_hidden_size": 48,
    "neck_hidden_sizes": [7, 10, 12, 13],
    "fusion_hidden_size": 11,
    "head_hidden_size": 9,
}
VIT_MAE = {
    "decoder_hidden_size": 24,
    "decoder_num_hidden_layers": 1,
    "decoder_num_attention_heads": 2,
    "decoder_intermediate_size": 20,
}
DPT = VIT | {
    "image_size": 64,
    "patch_size": 16,
    "num_hidden_layers": 5,
    "backbone_out_indices": [0, 2, 3, 4],
    "neck_hidden_sizes": [7, 10, 12, 13],
    "fusion_hidden_size": 10,  # of which most depths are above 0
}
SWIN = {
    "image_size": 40,
    "patch_size": 3,
    "embed_dim": 12,
    "depths": [2, 1, 2],
    "num_heads": [2, 3, 4],
    "window_size": 4,
}
SEGFORMER = {
    "image_size": 64,
    "num_encoder_blocks": 3,
    "depths": [1, 2, 1],
    "sr_ratios": [4, 2, 1],
    "hidden_sizes": [12, 20, 24],
    "patch_sizes": [7, 3, 3],
    "strides": [4, 2, 2],
    "num_attention_heads": [1, 2, 3],
    "mlp_ratios": [2, 3, 2],
    "decoder_hidden_size": 18,
}
MASKFORMER = {
    "backbone_config": {
        "model_type": "swin",
        "image_size": 40,
        "patch_size": 2,
        "embed_dim": 12,
        "depths": [2, 1, 2, 1],
        "num_heads": [2, 3, 4, 6],
        "window_size": 3,
    },
    "decoder_config": {
        "model_type": "detr",
        "d_model": 20,
        "decoder_layers": 2,
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 24,
        "num_queries": 7,
    },
    "fpn_feature_size": 128,
    "mask_feature_size": 18,
}
VITPOSE = {
    "backbone_config": VIT
    | {"model_type": "vitpose_backbone", "image_size": [48, 36], "patch_size": [6, 6], "mlp_ratio": 2}
    | {"out_indices": [2]},
    "num_labels": 7,
    "scale_factor": 3,
}
MASK2FORMER = {
    "backbone_config": MASKFORMER["backbone_config"]
    | {"out_features": ["stage1", "stage2", "stage3", "stage4"]},
    "feature_size": 128,
    "hidden_dim": 48,
    "mask_feature_size": 18,
    "encoder_layers": 2,
    "encoder_feedforward_dim": 30,
    "decoder_layers": 5,
    "dim_feedforward": 24,
    "num_attention_heads": 4,
    "num_queries": 7,
}
SAM = {
    "vision_config": {
        "hidden_size": 36,
        "num_attention_heads": 3,
        "num_hidden_layers": 3,
        "mlp_ratio": 2.0,
        "image_size": 60,
        "patch_size": 6,
        "window_size": 4,
        "global_attn_indexes": [1],
        "output_channels": 16,
        "num_pos_feats": 8,
    },
    "prompt_encoder_config": {
        "hidden_size": 16,
        "image_size": 60,
        "patch_size": 6,
        "mask_input_channels": 4,
    },
    "mask_decoder_config": {
        "hidden_size": 16,
        "mlp_dim": 20,
        "num_attention_heads": 2,
        "iou_head_hidden_dim": 12,
    },
}
SAM2 = {
    "vision_config": {
        "backbone_config": {
            "model_type": "sam2_hiera_det_model",
            "hidden_size": 8,
            "image_size": [96, 96],
            "window_positional_embedding_background_size": [3, 5],
            "blocks_per_stage": [1, 2, 3, 2],
            "embed_dim_per_stage": [8, 16, 24, 40],
            "num_attention_heads_per_stage": [1, 2, 3, 5],
            "window_size_per_stage": [8, 4, 4, 2],
            "global_attention_blocks": [4],
            "mlp_ratio": 2.0,
        },
        "backbone_channel_list": [40, 24, 16, 8],
        "backbone_feature_sizes": [[24, 24], [12, 12], [6, 6]],
        "fpn_hidden_size": 16,
    },
    "prompt_encoder_config": {"hidden_size": 16, "image_size": 96, "mask_input_channels": 4},
    "mask_decoder_config": {
        "hidden_size": 16,
        "mlp_dim": 20,
        "num_attention_heads": 2,
        "iou_head_hidden_dim": 12,
        "dynamic_multimask_stability_delta": 0.001,  # so that some masks are stable, and others are not
        "dynamic_multimask_stability_thresh": 0.9,
    },
}
SAM2_VIDEO = SAM2 | {
    "image_size": 96,
    **{f"memory_attention_{name}": 16 for name in ("hidden_size", "feed_forward_hidden_size")},
    "memory_attention_num_layers": 1,
    "memory_attention_rope_feat_sizes": [6, 6],
    **{f"memory_encoder_{name}": size for name, size in (("hidden_size", 16), ("output_channels", 8))},
    **{f"{name}_embed_dim": 16 for name in ("mask_downsampler", "memory_fuser")},
    "memory_fuser_intermediate_dim": 20,
}
BEIT = VIT | {"image_size": 30, "use_relative_position_bias": True, "layer_scale_init_value": 0.3}
DETR = {
    "backbone_config": {
        "model_type": "resnet",
        "embedding_size": 8,
        "depths": [1, 2, 1],
        "hidden_sizes": [8, 16, 20],
        "layer_type": "bottleneck",
        "out_features": ["stage3"],
    },
    "use_timm_backbone": False,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 24,
    "num_queries": 7,
}
RT_DETR = {
    "backbone_config": {
        "model_type": "rt_detr_resnet",
        "embedding_size": 8,
        "depths": [1, 2, 1],
        "hidden_sizes": [8, 16, 20],
        "layer_type": "bottleneck",
        "out_features": ["stage2", "stage3"],
    },
    "encoder_hidden_dim": 12,
    "encoder_in_channels": [16, 20],
    "feat_strides": [8, 16],
    "encode_proj_layers": [1],
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 20,
    "hidden_expansion": 0.5,
    "d_model": 16,
    "decoder_in_channels": [12, 12],
    "num_feature_levels": 2,
    "decoder_layers": 3,
    "decoder_attention_heads": 4,
    "decoder_ffn_dim": 24,
    "decoder_n_points": 3,
    "num_queries": 7,
}
D_FINE = RT_DETR | {
    "backbone_config": {
        "model_type": "hgnet_v2",
        "stem_channels": [3, 8, 10],
        "stage_in_channels": [10, 12, 16],
        "stage_mid_channels": [6, 8, 10],
        "stage_out_channels": [12, 16, 20],
        "stage_num_blocks": [1, 2, 1],
        "stage_downsample": [False, True, True],
        "stage_downsample_strides": [2, 2, 2],
        "stage_light_block": [False, False, True],
        "stage_kernel_size": [3, 3, 5],
        "stage_numb_of_layers": [2, 1, 2],
        "use_learnable_affine_block": True,
        "embedding_size": 10,
        "depths": [1, 2, 1],
        "hidden_sizes": [12, 16, 20],
        "out_indices": [2, 3],
    },
    "decoder_n_points": [3, 2],
    "decoder_offset_scale": 0.75,
    "depth_mult": 0.4,
    "hidden_expansion": 1.0,
    "max_num_bins": 8,
    "top_prob_values": 3,
    "lqe_hidden_dim": 6,
}
DAB_DETR = {key: value for key, value in DETR.items() if key != "d_model"} | {
    "hidden_size": 16,
    "temperature_height": 30,
    "temperature_width": 30,
}
LW_DETR = {
    "backbone_config": {
        "model_type": "lw_detr_vit",
        "hidden_size": 16,
        "num_hidden_layers": 5,
        "num_attention_heads": 2,
        "mlp_ratio": 2,
        "image_size": 32,
        "pretrain_image_size": 20,
        "patch_size": 4,
        "window_block_indices": [0, 2],
        "out_indices": [1, 4],
        "num_windows": 4,
    },
    "projector_scale_factors": [2.0, 0.5],
    "d_model": 16,
    "c2f_num_blocks": 2,
    "decoder_ffn_dim": 24,
    "decoder_layers": 2,
    "decoder_self_attention_heads": 2,
    "decoder_cross_attention_heads": 4,
    "decoder_n_points": 3,
    "num_queries": 7,
    "group_detr": 3,
}
RF_DETR = {key: value for key, value in LW_DETR.items() if key != "projector_scale_factors"} | {
    "backbone_config": {
        "model_type": "rf_detr_dinov2",
        "hidden_size": 16,
        "num_hidden_layers": 5,
        "num_attention_heads": 2,
        "mlp_ratio": 2,
        "image_size": 20,
        "patch_size": 4,
        "out_indices": [1, 4],
        "num_windows": 2,
    },
    "intermediate_size": 20,
    "mask_downsample_ratio": 2,
}
DEFORMABLE_DETR = DETR | {
    "backbone_config": DETR["backbone_config"] | {"out_features": ["stage2", "stage3"]},
    "d_model": 64,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 8,
    "encoder_n_points": 3,
    "decoder_n_points": 2,
    "num_feature_levels": 4,
    "two_stage_num_proposals": 7,
}
GROUNDING_DINO = {
    "backbone_config": {
        "model_type": "swin",
        "image_size": 64,
        "patch_size": 4,
        "embed_dim": 8,
        "depths": [1, 2, 1, 2],
        "num_heads": [1, 2, 2, 4],
        "window_size": 3,
        "mlp_ratio": 2.0,
        "out_features": ["stage2", "stage3", "stage4"],
    },
    # With words enough for the ids at which phrases end.
    "text_config": BERT | {"model_type": "bert", "vocab_size": 1040},
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 24,
    "encoder_n_points": 3,
    "decoder_n_points": 2,
    "num_queries": 7,
    "max_text_len": 32,
}
# Of DetrForSegmentation, whose heads and channels are of numbers that norms divide.
DETR_MASKS = {
    "backbone_config": DETR["backbone_config"]
    | {
        "depths": [1, 2, 1, 1],
        "hidden_sizes": [8, 12, 16, 20],
        "out_features": ["stage1", "stage2", "stage3", "stage4"],
    },
    "d_model": 32,
    "encoder_attention_heads": 8,
}
RESNET_MAPS = DETR_MASKS["backbone_config"]
RESNET = {"embedding_size": 6, "hidden_sizes": [8, 12, 20], "depths": [1, 2, 1]}
FOUR_STAGES = ["stage1", "stage2", "stage3", "stage4"]
UPERNET = {
    "backbone_config": {
        "model_type": "convnext",
        "hidden_sizes": [8, 10, 12, 14],
        "depths": [1, 1, 2, 1],
        "image_size": 64,
        "out_features": FOUR_STAGES,
    },
    "hidden_size": 9,
    "auxiliary_channels": 6,
}
HIERA = {
    "image_size": [64, 64],
    "embed_dim": 12,
    "depths": [1, 2, 3, 2],
    "num_heads": [1, 2, 3, 4],
    "mlp_ratio": 2.0,
}
CONVNEXT = {"hidden_sizes": [10, 14, 18], "depths": [1, 2, 1], "num_stages": 3, "image_size": 48}
CLIP = {
    "text_config": BERT | {"eos_token_id": 310, "bos_token_id": 0},
    "vision_config": VIT | {"hidden_size": 60, "num_hidden_layers": 3},
    "projection_dim": 36,
}
CHINESE_CLIP = CLIP | {"text_config": BERT}
SIGLIP = {"text_config": BERT | {"projection_size": 60}, "vision_config": CLIP["vision_config"]}
SIGLIP2 = {
    "text_config": BERT | {"projection_size": 60},
    "vision_config": {key: value for key, value in CLIP["vision_config"].items() if key != "image_size"}
    | {"num_patches": 25},
}
# With room for the vectors of two images.
LLAVA = {
    "vision_config": VIT | {"model_type": "clip_vision_model", "hidden_size": 60, "num_hidden_layers": 3},
    "text_config": LLAMA | {"model_type": "llama", "max_position_embeddings": 80},
    "image_token_id": 310,
}
QWEN2_AUDIO = {
    "audio_config": {
        "model_type": "qwen2_audio_encoder",
        "d_model": 36,
        "encoder_layers": 2,
        "encoder_attention_heads": 3,
        "encoder_ffn_dim": 70,
        "num_mel_bins": 11,
        "max_source_positions": 50,
    },
    "text_config": LLAMA | {"model_type": "qwen2", "max_position_embeddings": 80},
    "audio_token_index": 310,
}
AUDIO_FLAMINGO3 = {
    "audio_config": {
        "model_type": "audioflamingo3_encoder",
        "hidden_size": 36,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 70,
        "num_mel_bins": 11,
        "max_source_positions": 50,
    },
    "text_config": LLAMA | {"model_type": "qwen2", "max_position_embeddings": 80},
    "audio_token_id": 310,
}
VOXTRAL = {
    "audio_config": {
        "model_type": "voxtral_encoder",
        "hidden_size": 36,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 180,
        "num_mel_bins": 11,
        "max_source_positions": 50,
    },
    "text_config": LLAMA | {"model_type": "llama", "max_position_embeddings": 96},
    "audio_token_id": 310,
}
FLORENCE2 = {
    "vision_config": {
        "depths": [1, 2, 1],
        "patch_size": [5, 3, 3],
        "patch_stride": [2, 2, 2],
        "patch_padding": [2, 1, 1],
        "patch_prenorm": [False, True, True],
        "embed_dim": [12, 24, 36],
        "num_heads": [2, 3, 4],
        "num_groups": [3, 2, 6],
        "window_size": 3,
        "projection_dim": 48,
        "max_temporal_embeddings": 5,
        "max_position_embeddings": 7,
    },
    "text_config": BART | {"model_type": "bart", "max_position_embeddings": 80},
    "image_token_id": 310,
}
TILE = VIT | {"image_size": 24}  # four by four patches
WRITER = LLAMA | {"model_type": "llama", "max_position_embeddings": 80}
IDEFICS3 = {"vision_config": TILE, "text_config": WRITER, "image_token_id": 310, "scale_factor": 2}
INTERNVL = {
    "vision_config": TILE | {"image_size": [24, 24], "patch_size": [6, 6], "attention_bias": True},
    "text_config": WRITER | {"model_type": "qwen2"},
    "image_token_id": 310,
    "tie_word_embeddings": False,
}
GEMMA3_WITH_IMAGES = {
    "vision_config": TILE | {"model_type": "siglip_vision_model", "vision_use_head": False},
    "text_config": GEMMA3 | {"model_type": "gemma3_text", "max_position_embeddings": 80},
    "image_token_index": 310,
    "mm_tokens_per_image": 4,
}
PALIGEMMA = {
    "vision_config": TILE | {"model_type": "siglip_vision_model", "vision_use_head": False},
    "text_config": LLAMA | {"model_type": "gemma", "head_dim": 10, "max_position_embeddings": 80},
    "image_token_index": 310,
    "projection_dim": 48,
}
COLPALI = {"vlm_config": PALIGEMMA | {"model_type": "paligemma"}, "embedding_dim": 20}
CANVASES = [[24, 24], [24, 48], [48, 24], [48, 48], [24, 72]]
LLAVA_NEXT = {
    "vision_config": TILE | {"model_type": "clip_vision_model", "patch_size": 8, "num_hidden_layers": 3},
    "text_config": WRITER | {"max_position_embeddings": 200},
    "image_token_index": 310,
    "image_grid_pinpoints": CANVASES,
}
LLAVA_ONEVISION = LLAVA_NEXT | {
    "vision_config": TILE | {"model_type": "siglip_vision_model", "patch_size": 8, "vision_use_head": False},
    "text_config": WRITER | {"model_type": "qwen2", "max_position_embeddings": 200},
    "video_token_index": 311,
    "vision_aspect_ratio": "anyres_max_2",
}
AXES = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 2, 1]}
QWEN2_VL = {
    "vision_config": {
        "depth": 3,
        "embed_dim": 32,
        "hidden_size": 48,
        "mlp_ratio": 3,
        "num_heads": 4,
        "patch_size": 4,
    },
    "text_config": {name: value for name, value in WRITER.items() if name != "model_type"}
    | {"max_position_embeddings": 120, "rope_parameters": AXES},
    "image_token_id": 310,
    "video_token_id": 309,
    "vision_start_token_id": 307,
    "vision_end_token_id": 308,
    "tie_word_embeddings": False,
}
COLQWEN2 = {"vlm_config": QWEN2_VL | {"model_type": "qwen2_vl"}, "embedding_dim": 20}
QWEN2_5_VL = QWEN2_VL | {
    "vision_config": {
        "depth": 3,
        "hidden_size": 32,
        "out_hidden_size": 48,
        "intermediate_size": 40,
        "num_heads": 4,
        "patch_size": 4,
        "window_size": 16,
        "fullatt_block_indexes": [1],
    },
}
QWEN3_VL = QWEN2_VL | {
    "vision_config": {
        "depth": 4,
        "hidden_size": 32,
        "out_hidden_size": 48,
        "intermediate_size": 40,
        "num_heads": 4,
        "patch_size": 4,
        "num_position_embeddings": 25,
        "deepstack_visual_indexes": [0, 2],
    },
    "text_config": QWEN2_VL["text_config"]
    | {
        "num_hidden_layers": 3,
        "head_dim": 12,
        "rope_parameters": AXES | {"mrope_section": [2, 2, 2], "mrope_interleaved": True},
    },
}
QWEN3_VL_MOE = QWEN3_VL | {
    "text_config": QWEN3_VL["text_config"]
    | {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 28, "mlp_only_layers": [1]},
}
QWEN3_5_WITH_IMAGES = QWEN2_VL | {
    "vision_config": {
        name: value for name, value in QWEN3_VL["vision_config"].items() if not name.startswith("deepstack")
    },
    "text_config": QWEN3_5
    | {
        "model_type": "qwen3_5_text",
        "max_position_embeddings": 120,
        "rope_parameters": QWEN3_VL["text_config"]["rope_parameters"]
        | {"partial_rotary_factor": 0.5, "mrope_section": [1, 1, 1]},
    },
}
QWEN3_5_MOE_WITH_IMAGES = QWEN3_5_WITH_IMAGES | {
    "text_config": QWEN3_5_WITH_IMAGES["text_config"] | QWEN3_5_EXPERTS | {"model_type": "qwen3_5_moe_text"},
}
PIXTRAL = {
    "model_type": "pixtral",
    "hidden_size": 60,
    "intermediate_size": 100,
    "num_hidden_layers": 3,
    "num_attention_heads": 5,
    "image_size": 30,
    "patch_size": 5,
}
MISTRAL3 = {
    "vision_config": PIXTRAL,
    "text_config": LLAMA | {"model_type": "mistral", "max_position_embeddings": 120},
    "image_token_index": 310,
    "tie_word_embeddings": False,
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
LFM2_VL = {
    "vision_config": SIGLIP2["vision_config"] | {"vision_use_head": False, "num_attention_heads": 4},
    "text_config": LFM2 | {"max_position_embeddings": 120},
    "image_token_id": 310,
    "projector_hidden_size": 36,
}
MLLAMA = {
    "vision_config": {
        "hidden_size": 30,
        "intermediate_size": 44,
        "num_hidden_layers": 3,
        "num_global_layers": 2,
        "attention_heads": 5,
        "image_size": 12,
        "patch_size": 6,
        "vision_output_dim": 90,
        "intermediate_layers_indices": [2, 0],
    },
    "text_config": {name: value for name, value in WRITER.items() if name != "model_type"}
    | {"num_hidden_layers": 4, "cross_attention_layers": [1, 3]},
    "image_token_index": 311,
}
BLIP = {
    "vision_config": VIT,
    "text_config": BERT | {"bos_token_id": 3, "sep_token_id": 2, "encoder_hidden_size": 48},
}
PIX2STRUCT = {
    "vision_config": {
        **{"hidden_size": 48, "patch_embed_hidden_size": 108, "d_ff": 100, "d_kv": 10},
        **{"num_hidden_layers": 3, "num_attention_heads": 3, "seq_len": 30},
    },
    "text_config": {
        **{"vocab_size": VOCAB, "hidden_size": 48, "d_kv": 16, "d_ff": 100, "num_layers": 2, "num_heads": 3},
        **{"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20},
    },
}
T5 = {
    "vocab_size": VOCAB,
    "d_model": 48,
    "d_kv": 10,
    "d_ff": 100,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "decoder_start_token_id": 1,
    **IDS,
}
SWITCH = T5 | {
    "num_layers": 4,
    "num_decoder_layers": 3,
    "num_sparse_encoder_layers": 2,
    "num_sparse_decoder_layers": 1,
    "num_experts": 4,
    "expert_capacity": 64,
}
T5GEMMA = {
    "encoder": GEMMA2 | {"vocab_size": VOCAB, "attn_logit_softcapping": 1.1},
    "decoder": GEMMA2
    | {"hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "query_pre_attn_scalar": 9}
    | {"head_dim": 12, "intermediate_size": 70, "num_hidden_layers": 4, "sliding_window": 6},
    "vocab_size": VOCAB,
    "decoder_start_token_id": 3,
    **IDS,
}

CROSSED = {"is_decoder": True, "add_cross_attention": True}
PAIR = {"decoder_start_token_id": 3, **IDS}
BERTS = PAIR | {
    "encoder": BERT | {"model_type": "bert"},
    "decoder": BERT | CROSSED | {"model_type": "bert", "num_hidden_layers": 3},
}
CAPTIONS = PAIR | {
    "encoder": VIT | {"model_type": "vit"},
    "decoder": GPT2 | CROSSED | {"model_type": "gpt2", "n_layer": 3},
}
LAYER_NORM = {"feat_extract_norm": "layer"}
SPEECH = PAIR | {
    "encoder": WAV2VEC2 | {"model_type": "wav2vec2", **LAYER_NORM, "add_adapter": True},
    "decoder": BART | CROSSED | {"model_type": "mbart", "encoder_layers": 3},  # those of its cache
}

# model_type -> the default architecture, and its sizes: small and odd.
FAMILIES = {
    "bert": ("BertModel", BERT),
    "layoutlm": ("LayoutLMModel", BERT),
    "layoutlmv3": ("LayoutLMv3Model", LAYOUTLMV3),
    "lilt": ("LiltModel", BERT | {"channel_shrink_ratio": 2}),
    "roberta": ("RobertaModel", BERT | {"type_vocab_size": 1}),
    "xlm-roberta": ("XLMRobertaModel", BERT | {"type_vocab_size": 1}),
    "data2vec-text": ("Data2VecTextModel", BERT | {"type_vocab_size": 1}),
    "camembert": ("CamembertModel", BERT | {"type_vocab_size": 1}),
    "longformer": ("LongformerModel", LONGFORMER),
    "distilbert": ("DistilBertModel", DISTILBERT),
    "albert": ("AlbertModel", BERT | {"embedding_size": 20}),
    "electra": ("ElectraModel", BERT | {"embedding_size": 20}),
    "mpnet": ("MPNetModel", BERT),
    "mobilebert": (
        "MobileBertModel",
        BERT | {"embedding_size": 20, "intra_bottleneck_size": 36, "num_feedforward_networks": 3},
    ),
    "esm": ("EsmModel", ESM),
    "modernbert": ("ModernBertModel", MODERNBERT),
    "big_bird": ("BigBirdModel", BERT | {"attention_type": "original_full"}),
    "blenderbot-small": ("BlenderbotSmallForConditionalGeneration", BART),
    "splinter": ("SplinterModel", BERT | {"question_token_id": 7}),
    "chinese_clip": ("ChineseCLIPModel", CHINESE_CLIP),
    "dpr": ("DPRQuestionEncoder", BERT),
    "plbart": ("PLBartForConditionalGeneration", BART),
    "bigbird_pegasus": (
        "BigBirdPegasusForConditionalGeneration",
        BART | {"decoder_attention_heads": 3, "attention_type": "original_full"},
    ),
    "mvp": ("MvpForConditionalGeneration", BART),
    "rembert": ("RemBertModel", BERT | {"input_embedding_size": 20, "output_embedding_size": 36}),
    "roformer": ("RoFormerModel", BERT),
    "convbert": (
        "ConvBertModel",
        BERT | {"embedding_size": 20, "num_attention_heads": 6, "conv_kernel_size": 5},
    ),
    "flaubert": ("FlaubertModel", XLM),
    "xlm": ("XLMModel", XLM),
    "fnet": ("FNetModel", FNET),
    "squeezebert": (
        "SqueezeBertModel",
        BERT | {"embedding_size": 48, "q_groups": 3, "k_groups": 2, "output_groups": 2},
    ),
    "deberta": ("DebertaModel", DEBERTA | {"max_relative_positions": 7}),
    "deberta-v2": ("DebertaV2Model", DEBERTA),
    "ernie": ("ErnieModel", BERT),
    "xlnet": ("XLNetModel", XLNET),
    "eurobert": ("EuroBertModel", LLAMA),
    "jina_embeddings_v3": ("JinaEmbeddingsV3Model", BERT | {"type_vocab_size": 1}),
    "gte": ("GteModel", BERT | {"type_vocab_size": 2}),
    "megatron-bert": ("MegatronBertModel", BERT),
    "nomic_bert": ("NomicBertModel", BERT),
    "roberta-prelayernorm": ("RobertaPreLayerNormModel", BERT),
    "xlm-roberta-xl": ("XLMRobertaXLModel", BERT | {"type_vocab_size": 1}),
    "modernbert-decoder": ("ModernBertDecoderForCausalLM", MODERNBERT | {"local_attention": 10}),
    "bert-generation": ("BertGenerationDecoder", BERT | {"is_decoder": True}),
    "openai-gpt": ("OpenAIGPTLMHeadModel", GPT2),
    "gpt_neo": ("GPTNeoForCausalLM", GPT_NEO),
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "gptj": ("GPTJForCausalLM", GPT2 | {"rotary_dim": 10}),
    "gpt_neox": ("GPTNeoXForCausalLM", BERT | IDS),
    "opt": ("OPTForCausalLM", OPT),
    "bloom": ("BloomForCausalLM", {"vocab_size": VOCAB, "hidden_size": 48, "n_layer": 2, "n_head": 3, **IDS}),
    "mpt": ("MptForCausalLM", MPT),
    "falcon": ("FalconForCausalLM", BERT | IDS),
    "llama": ("LlamaForCausalLM", LLAMA),
    "mistral": ("MistralForCausalLM", LLAMA | {"sliding_window": 5}),
    "qwen2": ("Qwen2ForCausalLM", LLAMA),
    "lfm2": ("Lfm2ForCausalLM", LFM2),
    "qwen3_next": ("Qwen3NextForCausalLM", QWEN3_NEXT),
    "qwen3_5_text": ("Qwen3_5ForCausalLM", QWEN3_5),
    "qwen3_5_moe_text": ("Qwen3_5MoeForCausalLM", QWEN3_NEXT),
    "qwen3_5": ("Qwen3_5ForConditionalGeneration", QWEN3_5_WITH_IMAGES),
    "qwen3_5_moe": ("Qwen3_5MoeForConditionalGeneration", QWEN3_5_MOE_WITH_IMAGES),
    "olmo_hybrid": ("OlmoHybridForCausalLM", OLMO_HYBRID),
    "kimi_linear": ("KimiLinearForCausalLM", KIMI_LINEAR),
    "lfm2_moe": ("Lfm2MoeForCausalLM", LFM2_MOE),
    "lfm3": ("Lfm3ForCausalLM", LFM3),
    "qwen3": ("Qwen3ForCausalLM", LLAMA | {"head_dim": 10}),
    "phi": ("PhiForCausalLM", BERT | IDS),
    "phi3": ("Phi3ForCausalLM", LLAMA),
    "arcee": ("ArceeForCausalLM", LLAMA),
    "biogpt": ("BioGptForCausalLM", BERT | IDS),
    "codegen": ("CodeGenForCausalLM", GPT2 | {"n_head": 4, "rotary_dim": 10}),
    "cohere": ("CohereForCausalLM", LLAMA | {"logit_scale": 0.3}),
    "cohere2": ("Cohere2ForCausalLM", COHERE2),
    "cohere2_moe": ("Cohere2MoeForCausalLM", COHERE2_MOE),
    "deepseek_v2": ("DeepseekV2ForCausalLM", DEEPSEEK),
    "deepseek_v3": ("DeepseekV3ForCausalLM", DEEPSEEK),
    "cwm": ("CwmForCausalLM", LLAMA | {"head_dim": 10, "num_hidden_layers": 5, "sliding_window": 5}),
    "dots1": ("Dots1ForCausalLM", DOTS1),
    "ernie4_5": ("Ernie4_5ForCausalLM", LLAMA | {"head_dim": 10}),
    "ernie4_5_moe": ("Ernie4_5_MoeForCausalLM", ERNIE_MOE),
    "exaone4": ("Exaone4ForCausalLM", EXAONE4),
    "exaone_moe": ("ExaoneMoeForCausalLM", EXAONE_MOE),
    "exaone": ("LlamaForCausalLM", LLAMA),
    "internlm3": ("LlamaForCausalLM", LLAMA | {"head_dim": 12}),
    "iquestcoder": ("LlamaForCausalLM", LLAMA | {"head_dim": 10}),
    "dbrx": ("DbrxForCausalLM", DBRX),
    "llama4_text": ("Llama4ForCausalLM", LLAMA4),
    "llama4": ("Llama4ForConditionalGeneration", {"text_config": LLAMA4}),
    "mellum": ("MellumForCausalLM", MELLUM),
    "minicpm3": ("MiniCPM3ForCausalLM", MINICPM3),
    "glm": ("GlmForCausalLM", LLAMA | {"head_dim": 8}),
    "glm4": ("Glm4ForCausalLM", LLAMA | {"head_dim": 8}),
    "glm4_moe": ("Glm4MoeForCausalLM", GLM4_MOE),
    "glm4_moe_lite": ("Glm4MoeLiteForCausalLM", GLM4_MOE_LITE),
    "jais2": ("Jais2ForCausalLM", LLAMA),
    "minimax_m2": ("MiniMaxM2ForCausalLM", MINIMAX_M2),
    "solar_open": ("SolarOpenForCausalLM", GLM4_MOE),
    "youtu": ("YoutuForCausalLM", YOUTU),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", GPT2),
    "helium": ("HeliumForCausalLM", LLAMA | {"head_dim": 8}),
    "hyperclovax": ("HyperCLOVAXForCausalLM", GRANITE),
    "gpt_oss": ("GptOssForCausalLM", GPT_OSS),
    "granite": ("GraniteForCausalLM", GRANITE),
    "granitemoe": ("GraniteMoeForCausalLM", GRANITEMOE),
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM", GRANITE_HYBRID),
    "bamba": ("BambaForCausalLM", BAMBA),
    "granite_swa": ("GraniteSWAForCausalLM", GRANITE | GRANITE_WINDOWS),
    "granitemoe_swa": ("GraniteMoeSWAForCausalLM", GRANITEMOE | GRANITE_WINDOWS),
    "granitemoeshared": ("GraniteMoeSharedForCausalLM", GRANITEMOE | {"shared_intermediate_size": 50}),
    "hunyuan_v1_moe": ("HunYuanMoEV1ForCausalLM", HUNYUAN_MOE),
    "falcon_h1": ("FalconH1ForCausalLM", FALCON_H1),
    "nemotron_h": ("NemotronHForCausalLM", NEMOTRON_H),
    "jamba": ("JambaForCausalLM", JAMBA),
    "zamba2": ("Zamba2ForCausalLM", ZAMBA2),
    "recurrent_gemma": ("RecurrentGemmaForCausalLM", RECURRENT_GEMMA),
    "mamba2": ("Mamba2ForCausalLM", MAMBA2_ALONE),
    "mamba": ("MambaForCausalLM", MAMBA),
    "rwkv": ("RwkvForCausalLM", RWKV),
    "falcon_mamba": ("FalconMambaForCausalLM", MAMBA | {"intermediate_size": 70}),
    "hunyuan_v1_dense": ("HunYuanDenseV1ForCausalLM", LLAMA | {"head_dim": 10}),
    "nemotron": ("NemotronForCausalLM", LLAMA),
    "olmo": ("OlmoForCausalLM", LLAMA),
    "olmo2": ("Olmo2ForCausalLM", LLAMA),
    "olmo3": ("Olmo3ForCausalLM", LLAMA | {"num_hidden_layers": 4, "sliding_window": 5}),
    "olmoe": ("OlmoeForCausalLM", LLAMA | {"num_experts": 5, "num_experts_per_tok": 2}),
    "flex_olmo": ("FlexOlmoForCausalLM", LLAMA | {"num_experts": 5, "num_experts_per_tok": 2}),
    "qwen2_moe": ("Qwen2MoeForCausalLM", QWEN2_MOE),
    "qwen3_moe": ("Qwen3MoeForCausalLM", QWEN3_MOE),
    "seed_oss": ("SeedOssForCausalLM", LLAMA | {"head_dim": 10}),
    "smollm3": ("SmolLM3ForCausalLM", LLAMA | {"num_hidden_layers": 3, "no_rope_layer_interval": 2}),
    "stablelm": ("StableLmForCausalLM", LLAMA | {"num_attention_heads": 3, "num_key_value_heads": 3}),
    "starcoder2": ("Starcoder2ForCausalLM", LLAMA | {"num_key_value_heads": 3, "sliding_window": 5}),
    "gemma": ("GemmaForCausalLM", LLAMA | {"head_dim": 10}),
    "gemma2": ("Gemma2ForCausalLM", GEMMA2),
    "vaultgemma": ("VaultGemmaForCausalLM", GEMMA2),
    "gemma3_text": ("Gemma3ForCausalLM", GEMMA3),
    "gemma4_text": ("Gemma4ForCausalLM", GEMMA4),
    "gemma3n_text": ("Gemma3nForCausalLM", GEMMA3N),
    "gemma3n": ("Gemma3nForConditionalGeneration", {"text_config": GEMMA3N}),
    "gemma4": ("Gemma4ForConditionalGeneration", GEMMA4_WITH_IMAGES),
    "mixtral": ("MixtralForCausalLM", LLAMA | {"num_local_experts": 5, "num_experts_per_tok": 2}),
    "phimoe": ("PhimoeForCausalLM", LLAMA | PHIMOE),
    "xglm": ("XGLMForCausalLM", XGLM),
    "bart": ("BartForConditionalGeneration", BART),
    "marian": ("MarianMTModel", MARIAN),
    "pegasus": ("PegasusForConditionalGeneration", BART),
    "blenderbot": ("BlenderbotForConditionalGeneration", BART | {"encoder_no_repeat_ngram_size": 0}),
    "m2m_100": ("M2M100ForConditionalGeneration", BART),
    "whisper": ("WhisperForConditionalGeneration", WHISPER),
    "speech_to_text": ("Speech2TextForConditionalGeneration", SPEECH_TO_TEXT),
    "moonshine": ("MoonshineForConditionalGeneration", MOONSHINE),
    "audio-spectrogram-transformer": ("ASTForAudioClassification", AST),
    "wav2vec2": ("Wav2Vec2ForCTC", WAV2VEC2),
    "wavlm": ("WavLMForCTC", WAV2VEC2 | {"num_buckets": 8, "max_bucket_distance": 20}),
    "hubert": ("HubertForCTC", WAV2VEC2),
    "data2vec-audio": ("Data2VecAudioForCTC", DATA2VEC_AUDIO),
    "sew": ("SEWForCTC", SEW),
    "unispeech": ("UniSpeechForCTC", WAV2VEC2),
    "unispeech-sat": ("UniSpeechSatForCTC", WAV2VEC2),
    "parakeet_ctc": ("ParakeetForCTC", PARAKEET),
    "omniasr_ctc": ("OmniASRForCTC", OMNIASR),
    "wav2vec2-conformer": (
        "Wav2Vec2ConformerForCTC",
        WAV2VEC2 | {"conv_depthwise_kernel_size": 5, "position_embeddings_type": "relative"},
    ),
    "wav2vec2-bert": ("Wav2Vec2BertForCTC", WAV2VEC2_BERT),
    "vit": ("ViTModel", VIT),
    "deit": ("DeiTModel", VIT),
    "vit_msn": ("ViTMSNModel", VIT),
    "ijepa": ("IJepaModel", VIT),
    "vit_mae": ("ViTMAEModel", VIT | VIT_MAE),
    "dinov2": ("Dinov2Model", VIT | {"mlp_ratio": 2}),
    "dinov2_with_registers": ("Dinov2WithRegistersModel", VIT | {"mlp_ratio": 2, "num_register_tokens": 3}),
    "dinov3_vit": ("DINOv3ViTModel", VIT | {"num_register_tokens": 3}),
    "depth_anything": ("DepthAnythingForDepthEstimation", DEPTH),
    "dpt": ("DPTForDepthEstimation", DPT),
    "yolos": (
        "YolosForObjectDetection",
        VIT | {"image_size": [30, 42], "num_detection_tokens": 7, "num_labels": 5, "num_hidden_layers": 3},
    ),
    "segformer": ("SegformerForSemanticSegmentation", SEGFORMER),
    "vitpose": ("VitPoseForPoseEstimation", VITPOSE),
    "glpn": ("GLPNForDepthEstimation", SEGFORMER),
    "resnet": ("ResNetModel", RESNET),
    "hiera": ("HieraModel", HIERA),
    "upernet": ("UperNetForSemanticSegmentation", UPERNET),
    "convnext": ("ConvNextModel", CONVNEXT),
    "convnextv2": ("ConvNextV2Model", CONVNEXT),
    "sam": ("SamModel", SAM),
    "sam2": ("Sam2Model", SAM2),
    "sam2_video": ("Sam2VideoModel", SAM2_VIDEO),
    "beit": ("BeitModel", BEIT),
    "data2vec-vision": (
        "Data2VecVisionModel",
        BEIT | {"use_relative_position_bias": False, "use_shared_relative_position_bias": True},
    ),
    "maskformer": ("MaskFormerForInstanceSegmentation", MASKFORMER),
    "mask2former": ("Mask2FormerForUniversalSegmentation", MASK2FORMER),
    "detr": ("DetrForObjectDetection", DETR),
    "table-transformer": ("TableTransformerForObjectDetection", DETR),
    "conditional_detr": ("ConditionalDetrForObjectDetection", DETR),
    "dab-detr": ("DabDetrForObjectDetection", DAB_DETR),
    "deformable_detr": ("DeformableDetrForObjectDetection", DEFORMABLE_DETR),
    "rt_detr": ("RTDetrForObjectDetection", RT_DETR),
    "rt_detr_v2": (
        "RTDetrV2ForObjectDetection",
        RT_DETR | {"decoder_n_levels": 2, "decoder_offset_scale": 0.75},
    ),
    "d_fine": ("DFineForObjectDetection", D_FINE),
    "lw_detr": ("LwDetrForObjectDetection", LW_DETR),
    "rf_detr": ("RfDetrForObjectDetection", RF_DETR),
    "swin": ("SwinModel", SWIN),
    "swinv2": ("Swinv2Model", SWIN | {"pretrained_window_sizes": [3, 0, 6]}),
    "clip": ("CLIPModel", CLIP),
    "owlvit": ("OwlViTForObjectDetection", OWLVIT),
    "clipseg": ("CLIPSegForImageSegmentation", CLIPSEG),
    "grounding-dino": ("GroundingDinoForObjectDetection", GROUNDING_DINO),
    "owlv2": ("Owlv2ForObjectDetection", OWLVIT),
    "clap": ("ClapModel", CLAP),
    "clip_text_model": ("CLIPTextModel", CLIP["text_config"]),
    "clip_vision_model": ("CLIPVisionModel", CLIP["vision_config"]),
    "siglip": ("SiglipModel", SIGLIP),
    "siglip2": ("Siglip2Model", SIGLIP2),
    "siglip_text_model": ("SiglipTextModel", SIGLIP["text_config"]),
    "siglip_vision_model": ("SiglipVisionModel", SIGLIP["vision_config"]),
    "llava": ("LlavaForConditionalGeneration", LLAVA),
    "florence2": ("Florence2ForConditionalGeneration", FLORENCE2),
    "qwen2_audio": ("Qwen2AudioForConditionalGeneration", QWEN2_AUDIO),
    "voxtral": ("VoxtralForConditionalGeneration", VOXTRAL),
    "audioflamingo3": ("AudioFlamingo3ForConditionalGeneration", AUDIO_FLAMINGO3),
    "idefics3": ("Idefics3ForConditionalGeneration", IDEFICS3),
    "smolvlm": ("SmolVLMForConditionalGeneration", IDEFICS3),
    "internvl": ("InternVLForConditionalGeneration", INTERNVL),
    "gemma3": ("Gemma3ForConditionalGeneration", GEMMA3_WITH_IMAGES),
    "llava_next": ("LlavaNextForConditionalGeneration", LLAVA_NEXT),
    "llava_onevision": ("LlavaOnevisionForConditionalGeneration", LLAVA_ONEVISION),
    "paligemma": ("PaliGemmaForConditionalGeneration", PALIGEMMA),
    "colpali": ("ColPaliForRetrieval", COLPALI),
    "colqwen2": ("ColQwen2ForRetrieval", COLQWEN2),
    "qwen2_vl": ("Qwen2VLForConditionalGeneration", QWEN2_VL),
    "qwen3_vl": ("Qwen3VLForConditionalGeneration", QWEN3_VL),
    "qwen3_vl_moe": ("Qwen3VLMoeForConditionalGeneration", QWEN3_VL_MOE),
    "qwen2_5_vl": ("Qwen2_5_VLForConditionalGeneration", QWEN2_5_VL),
    "mistral3": ("Mistral3ForConditionalGeneration", MISTRAL3),
    "ministral3": ("Ministral3ForCausalLM", MINISTRAL3),
    "mistral4": ("Mistral4ForCausalLM", MISTRAL4),
    "afmoe": ("AfmoeForCausalLM", AFMOE),
    "apertus": ("ApertusForCausalLM", APERTUS),
    "nanochat": ("NanoChatForCausalLM", LLAMA | {"final_logit_softcapping": 2.0}),
    "lfm2_vl": ("Lfm2VlForConditionalGeneration", LFM2_VL),
    "mllama": ("MllamaForConditionalGeneration", MLLAMA),
    "blip": ("BlipForConditionalGeneration", BLIP),
    "donut-swin": ("DonutSwinModel", SWIN),
    "pix2struct": ("Pix2StructForConditionalGeneration", PIX2STRUCT),
    "t5": ("T5ForConditionalGeneration", T5),
    "mt5": (
        "MT5ForConditionalGeneration",
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "umt5": ("UMT5ForConditionalGeneration", T5),
    "switch_transformers": ("SwitchTransformersForConditionalGeneration", SWITCH),
    "t5gemma": ("T5GemmaForConditionalGeneration", T5GEMMA),
    "mbart": ("MBartForConditionalGeneration", BART),
    "encoder-decoder": ("EncoderDecoderModel", BERTS),
    "speech-encoder-decoder": ("SpeechEncoderDecoderModel", SPEECH),
    "vision-encoder-decoder": ("VisionEncoderDecoderModel", CAPTIONS),
}


# The attention of T5 and Gemma 4 does not scale its scores, and Gemma multiplies by 1 + weight in its norms:
# wide weights would amplify float32's rounding errors in all three.
# Batch norms keep the small numbers of narrow convolutions small: with weights as others have, what the maps
# of RT-DETR tell one another, and queries of Conditional DETR, would be lost in rounding.
# Layer norms of ConvNeXt divide by what a depthwise convolution leaves of few places.
WIDE = (
    "rt_detr",
    "rt_detr_v2",
    "d_fine",
    "dab-detr",
    "lw_detr",
    "convnext",
    "convnextv2",
    "conditional_detr",
)
# Models whose other parts the library cannot build without timm, and the text model within.
WITHIN = {"gemma3n": "gemma3n_text", "llama4": "llama4_text"}
# How the names of the text model begin, alone and within, and a tensor of an encoder beside it.
INNER_NAMES = {
    "gemma3n": ("model.", "model.language_model.", "model.vision_tower.weight"),
    "llama4": ("", "language_model.", "vision_model.weight"),
}
OF_DIVIDED = "modality_router.weight"  # its input is divided by its width
# One-dimensional tensors that multiply.
SCALES = ("weight", "layer_scalar", "router.scale", "per_expert_scale", "correct_output_scale")
SCALES += (
    "gamma_1",
    "gamma_2",
    "gate",
    "gate_attn",
    "gate_ffn",
    "lab.scale",
    "reg_scale",
    "num_points_scale",
    "decoder.up",
)
NARROW = (
    "t5",
    "mt5",
    "umt5",
    "switch_transformers",
    "t5gemma",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gemma3",
    "gemma3n",
    "gemma3n_text",
    "gemma4",
    "gemma4_text",
    "paligemma",
    "colpali",
    "nemotron",
)


def build(model_type: str, architecture: str | None = None, seed: int = 0, **config):
    """A random transformers model of `architecture`, with its family's sizes changed by `config`."""
    default, sizes = FAMILIES[model_type]
    if model_type in WITHIN:
        model_type, text = WITHIN[model_type], config.pop("text_config", {})
        return build(model_type, seed=seed, **config | text)
    parts = {key: sizes[key] | value for key, value in config.items() if isinstance(sizes.get(key), dict)}
    settings = transformers.AutoConfig.for_model(model_type, **sizes | config | parts)
    torch.manual_seed(seed)
    model = getattr(transformers, architecture or default)(settings).eval()
    spread = 0.06 if model_type in NARROW else 0.3 if model_type in WIDE else 0.12
    tensors = [*model.named_parameters(), *model.named_buffers()]
    with torch.no_grad():
        for name, tensor in tensors:
            if not tensor.is_floating_point() or (model_type == "roformer" and "embed_positions" in name):
                continue  # the latter are sinusoids, which are not trained
            if name.endswith(("n_points_scale", "act_fn.beta", "act_fn.eps")):
                continue  # the reciprocal of a count, and numbers that nothing learns
            if name.endswith(("recurrent_param", "time_decay")) or ".time_mix_" in name:
                continue  # drawn so that states last for some tokens, and shares of 0 to 1
            noise = torch.randn_like(tensor)
            is_scale = tensor.ndim == 1 and name.endswith(SCALES)
            wider = tensor.shape[-1] if name.endswith(OF_DIVIDED) else 1
            tensor.copy_(1 + 0.3 * noise if is_scale else wider * spread * noise)
            if name.endswith("running_var"):
                tensor.copy_(1 + noise**2)
        if model_type == "d_fine":
            model.model.decoder.query_pos_head.layers[1].weight.mul_(32)  # so that some numbers are clipped
        if model_type == "chinese_clip":  # transformers zeroes it whenever it loads one
            table = model.text_model.embeddings.word_embeddings
            table.weight[table.padding_idx] = 0
        if model_type in ("sam2", "sam2_video"):  # one tensor under two names in published files
            points = model.prompt_encoder.shared_embedding.positional_embedding
            points.copy_(model.shared_image_embedding.positional_embedding)
    return model


def save(folder: Path, model_type: str, architecture: str | None = None, seed: int = 0, **config) -> None:
    """Write a checkpoint of `build` and its tokenizer to `folder`."""
    transformers.utils.logging.disable_progress_bar()
    build(model_type, architecture, seed, **config).save_pretrained(folder)
    if model_type in WITHIN:
        _wrap(folder, model_type)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(CORPUS, vocab_size=VOCAB, special_tokens=SPECIAL, show_progress=False)
    tokenizer.save(str(Path(folder) / "tokenizer.json"))


def _wrap(folder: Path, model_type: str) -> None:
    """Rewrite a text model as that within a published checkpoint, beside a tensor of an encoder."""
    file, config = folder / "model.safetensors", folder / "config.json"
    prefix, within, other = INNER_NAMES[model_type]
    tensors = {name.replace(prefix, within, 1): one for name, one in load_file(file).items()}
    save_file(tensors | {other: torch.ones(3)}, file, {"format": "pt"})
    named = {"model_type": model_type, "architectures": [FAMILIES[model_type][0]]}
    text = {key: value for key, value in json.loads(config.read_text()).items() if key != "architectures"}
    config.write_text(json.dumps(named | {"text_config": text}))


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in FAMILIES:
        sys.exit(f"usage: tiny_checkpoint.py {'|'.join(FAMILIES)} FOLDER")
    transformers.utils.logging.set_verbosity_error()
    save(Path(sys.argv[2]), sys.argv[1])
