"""Sizes of encoder-decoders, and of pairs of an encoder and a decoder of other families."""

from tiny_checkpoint._decoders import GEMMA2, GPT2
from tiny_checkpoint._encoders import BERT
from tiny_checkpoint._images import VIT
from tiny_checkpoint._sounds import WAV2VEC2
from tiny_checkpoint._vocabulary import IDS, VOCAB

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
