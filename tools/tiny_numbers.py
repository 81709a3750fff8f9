"""Numbers of tiny configurations that follow no rule of `tiny_configs`, by model type."""

from typing import Any

DROPPED: Any = object()  # in place of a setting that the configuration makes of others

# The tokens of a vocabulary that stand for an image's codes, as the library spells their numbers.
IMAGE_CODES = {
    f"IMGIMG{''.join(chr(ord('A') + int(digit)) for digit in str(code))}Z": 10 + code for code in range(64)
}


def _rotary(*sections: int) -> dict[str, Any]:
    """Sections of rotary positions that the model's code has by default for larger heads."""
    return {"rope_parameters": {"mrope_section": list(sections)}}


INDEXED = {  # sizes of an indexer that the library leaves open
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 8,
    "indexer_budget": 16,
    "indexer_compress_ratio": 2,
}
EFFICIENT = {  # its first convolution has a fixed number of channels, times this coefficient
    "width_coefficient": 0.25,
    "depth_coefficient": 1.0,
    "hidden_dim": 320,
    "in_channels": [32, 16, 24, 40, 80, 112, 192],
    "out_channels": [16, 24, 40, 80, 112, 192, 320],
}
NUMBERS: dict[str, dict[str, Any]] = {
    "bit": {"num_groups": 4},
    "esmc": {"num_key_value_heads": 4},
    "glm5_next_text": {"num_key_value_heads": 4},
    "autoformer": {"lags_sequence": [1, 2]},
    "swin2sr": {"embed_dim": 36, "depths": [1, 1], "num_heads": [2, 2]},
    "reformer": {"is_decoder": True, "axial_pos_embds_dim": [8, 24], "axial_pos_shape": [8, 8]},
    "aria": {"projector_patch_to_query_dict": {16: 4}, "max_value_projector_patch_to_query_dict": 4},
    "bridgetower": {
        "text_config": {"hidden_size": 64, "num_hidden_layers": 6},
        "vision_config": {"hidden_size": 64, "num_hidden_layers": 6},
        "hidden_size": 64,
    },
    "chameleon": {"image_token_id": 4, "vocabulary_map": {"<image>": 4} | IMAGE_CODES},
    "cvt": {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 2], "depth": [1, 2, 3]},
    "dory": {
        "num_hidden_layers": 6,
        "n_input_layers": 2,
        "n_recurrent_layers": 2,
        "n_output_layers": 2,
        "layer_types": ["sliding_attention", "mlp", "full_attention", "mlp", "sliding_attention", "mlp"],
    },
    "dots3_note_text": {"num_key_value_heads": 4, "per_layer_config": DROPPED, "head_dim": 16},
    "dots3_note": {"text_config": {"num_key_value_heads": 4, "per_layer_config": DROPPED, "head_dim": 16}},
    "efficientloftr": {"out_features": [8, 8, 16, 32]},
    "ernie4_5_vl_moe": {"text_config": {"moe_intermediate_size": [32, 16]}},
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 8}, "audio_config": {"num_stacked_frames": 1}},
    "granite4_vision": {
        "deepstack_layer_map": [[0, 0]],
        "downsample_rate": "1/2",
        "vision_config": {"hidden_size": 64},
        "qformer_config": {"encoder_hidden_size": 64, "hidden_size": 64},
    },
    "levit": {
        "image_size": 64,
        "patch_size": 16,
        "hidden_sizes": [16, 32, 48],
        "num_attention_heads": [1, 2, 3],
        "key_dim": [8, 8, 8],
        "down_ops": DROPPED,
    },
    "mobilevitv2": {"image_size": 64},
    "bros": {
        "hidden_size": 64,
        "dim_bbox_sinusoid_emb_1d": 2,
        "dim_bbox_sinusoid_emb_2d": 16,
        "dim_bbox_projection": 16,
    },
    "molmo2": {"adapter_config": {"vision_feature_layer": [1, 0]}},
    "moonshine_streaming": {"num_key_value_heads": 4},
    "neomme": {"head_dim": 16, "num_attention_heads": 2},
    "qwen4_exp_text": INDEXED,
    "qwen4_exp": {"text_config": INDEXED},
    "sam2_hiera_det_model": {
        "hidden_size": 8,
        "embed_dim_per_stage": [8, 16, 32, 64],
        "image_size": [64, 64],
        "blocks_per_stage": [1, 1, 1, 1],
        "global_attention_blocks": [2, 3],
    },
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "blt": {
        "encoder_hash_byte_group_vocab": 97,
        **{part: {"hidden_size_global": 32, "head_dim": 8} for part in ("encoder_config", "decoder_config")},
    },
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["linear_attention", "hybrid"] * 2},
    **dict.fromkeys(("glm4v_text", "glm_image_text", "glm_ocr_text"), _rotary(2, 1, 1)),
    **dict.fromkeys(("qwen2_vl_text", "qwen2_5_vl_text"), _rotary(2, 1, 1)),
    "glm4v_moe_text": _rotary(1, 1, 0),
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", "sparse"]}},
    "diffusion_gemma": {
        "text_config": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 16},
    },
    "efficientnet": EFFICIENT,
    "align": {"vision_config": EFFICIENT},
    "fun_asr_nano_encoder": {"num_stacked_frames": 1},
    "lw_detr_vit": {"image_size": 64, "patch_size": 4, "num_windows": 4, "num_windows_side": 2},
    "muse_spark_audio": {"patch_sizes": [10, 5, 4, 2]},
    "tvp": {"max_img_size": 224},
    "vipllava": {"vision_feature_layers": [-1, -2]},
    "xmod": {"default_language": "en_XX"},
    "sam_hq": {"prompt_encoder_config": {"image_embedding_size": 4}, "vision_config": {"num_pos_feats": 16}},
    "sam3_tracker": {"vision_config": {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]}},
    "sapiens2": {"num_key_value_heads_per_layer": [4, 4], "num_key_value_attention_heads": 4},
    "shieldgemma2": {"yes_token_index": 10, "no_token_index": 11},
    "step3p7": {"text_config": {"sliding_window": 16}},
}
