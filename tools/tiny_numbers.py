"""Numbers of tiny configurations that follow no rule of `tiny_configs`, by model type."""

from typing import Any

DROPPED: Any = object()  # in place of a setting that the configuration makes of others

INDEXED = {  # sizes of an indexer that the library leaves open
    "indexer_n_heads": 4,
    "indexer_kv_heads": 2,
    "indexer_head_dim": 8,
    "indexer_budget": 16,
    "indexer_compress_ratio": 2,
}
NUMBERS: dict[str, dict[str, Any]] = {
    "bit": {"num_groups": 4},
    "lilt": {"hidden_size": 24, "num_attention_heads": 2},
    "esmc": {"num_key_value_heads": 4},
    "glm5_next_text": {"num_key_value_heads": 4},
    "autoformer": {"lags_sequence": [1, 2]},
    "swin2sr": {"embed_dim": 36, "depths": [1, 1], "num_heads": [2, 2]},
    "reformer": {"is_decoder": True, "axial_pos_embds_dim": [8, 24], "axial_pos_shape": [8, 8]},
    "aria": {"projector_patch_to_query_dict": {16: 4}, "max_value_projector_patch_to_query_dict": 4},
    "bridgetower": {
        "text_config": {"num_hidden_layers": 6},
        "vision_config": {"hidden_size": 64, "num_hidden_layers": 6},
        "hidden_size": 64,
    },
    "chameleon": {"image_token_id": 4, "vocabulary_map": {"<image>": 4}},
    "cvt": {"embed_dim": [8, 16, 32], "num_heads": [1, 2, 2], "depth": [1, 1, 2]},
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
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 8}},
    "granite4_vision": {"deepstack_layer_map": [[0, 0]], "downsample_rate": "1/2"},
    "layoutlmv3": {"coordinate_size": 6, "shape_size": 4, "input_size": 32},
    "levit": {
        "hidden_sizes": [16, 32, 48],
        "num_attention_heads": [1, 2, 3],
        "key_dim": [8, 8, 8],
        "down_ops": DROPPED,
    },
    "lw_detr": {
        "backbone_config": {"image_size": 64, "patch_size": 4, "num_windows": 4, "num_windows_side": 2},
        "projector_scale_factors": [1.0],
    },
    "mobilebert": {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "mobilevitv2": {"image_size": 64},
    "bros": {"dim_bbox_sinusoid_emb_1d": 2, "dim_bbox_sinusoid_emb_2d": 8, "dim_bbox_projection": 8},
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
}
