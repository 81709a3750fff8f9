"""Sizes of encoders of images, and of models for depth and poses."""

VIT = {
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 100,
    "image_size": 30,
    "patch_size": 6,
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
VITPOSE = {
    "backbone_config": VIT
    | {"model_type": "vitpose_backbone", "image_size": [48, 36], "patch_size": [6, 6], "mlp_ratio": 2}
    | {"out_indices": [2]},
    "num_labels": 7,
    "scale_factor": 3,
}
BEIT = VIT | {"image_size": 30, "use_relative_position_bias": True, "layer_scale_init_value": 0.3}
RESNET = {"embedding_size": 6, "hidden_sizes": [8, 12, 20], "depths": [1, 2, 1]}
HIERA = {
    "image_size": [64, 64],
    "embed_dim": 12,
    "depths": [1, 2, 3, 2],
    "num_heads": [1, 2, 3, 4],
    "mlp_ratio": 2.0,
}
CONVNEXT = {"hidden_sizes": [10, 14, 18], "depths": [1, 2, 1], "num_stages": 3, "image_size": 48}
