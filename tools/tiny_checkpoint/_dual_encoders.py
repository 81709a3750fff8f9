"""Sizes of dual encoders, which compare texts with images or sounds, and of models made of them."""

from tiny_checkpoint._encoders import BERT
from tiny_checkpoint._images import VIT
from tiny_checkpoint._vocabulary import VOCAB

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
