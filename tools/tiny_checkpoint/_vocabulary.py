"""The tiny vocabulary, its special tokens, and the text that its tokenizer learns from."""

VOCAB = 311  # prime, and enough for the 256 bytes, the special tokens and a few merges
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
CORPUS = ["the cat sat on the mat and the dog lay on the rug"] * 8
IDS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
