"""Sizes of encoders of sounds, and of models that write texts about sounds."""

from tiny_checkpoint._decoders import LLAMA

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
