"""Sizes of models that write about images, and of retrievers of pages that are made of them."""

from tiny_checkpoint._decoders import GEMMA3, GEMMA4, LLAMA
from tiny_checkpoint._dual_encoders import SIGLIP2
from tiny_checkpoint._encoder_decoders import BART
from tiny_checkpoint._encoders import BERT
from tiny_checkpoint._images import VIT
from tiny_checkpoint._states import LFM2, QWEN3_5, QWEN3_5_EXPERTS
from tiny_checkpoint._vocabulary import VOCAB

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
# With room for the vectors of two images.
LLAVA = {
    "vision_config": VIT | {"model_type": "clip_vision_model", "hidden_size": 60, "num_hidden_layers": 3},
    "text_config": LLAMA | {"model_type": "llama", "max_position_embeddings": 80},
    "image_token_id": 310,
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
# With 5 experts of 28, rounding decides which of two the router chooses for a token of the tests.
QWEN3_5_MOE_WITH_IMAGES = QWEN3_5_WITH_IMAGES | {
    "text_config": QWEN3_5_WITH_IMAGES["text_config"]
    | QWEN3_5_EXPERTS
    | {"model_type": "qwen3_5_moe_text", "num_experts": 7, "moe_intermediate_size": 32},
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
