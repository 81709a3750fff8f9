"""Sizes of models that segment images."""

from tiny_checkpoint._detection import DETR

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
