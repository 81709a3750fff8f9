"""Sizes of encoders of text."""

from tiny_checkpoint._vocabulary import VOCAB

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
