"""Tiny checkpoints of families that read words in their boxes, with the library's tokenizers."""

import json
from pathlib import Path
from typing import Any

import tiny_checkpoint
import tiny_tokenizers
import transformers

from helpers.tokenizer_folders import KINDS, tokenizer_of

FAMILIES = ("layoutlm", "layoutlmv3", "lilt")
HEADS = {"tag": "TokenClassification", "classify": "SequenceClassification", "answer": "QuestionAnswering"}
NAMES = {"layoutlm": "LayoutLM", "layoutlmv3": "LayoutLMv3", "lilt": "Lilt"}
READS_IMAGES = ("layoutlmv3",)
SIDE = 14  # pixels of an image's height and width
LABELS = ["O", "B-TOTAL", "I-TOTAL", "DATE"]
LIMIT = 72


def save(folder: Path, family: str, head: str = "tag", **config: Any) -> None:
    """Write a checkpoint of `family` with a head of HEADS, or "embed" for none."""
    reader = tokenizer(family)
    name = f"{NAMES[family]}For{HEADS[head]}" if head in HEADS else f"{NAMES[family]}Model"
    labels = dict(enumerate(LABELS))
    sizes = (
        {} if head == "answer" else {"id2label": labels, "label2id": {one: i for i, one in labels.items()}}
    )
    sizes |= {"vocab_size": len(reader), "pad_token_id": reader.pad_token_id}
    sizes["max_position_embeddings"] = LIMIT + (family != "layoutlm") * (1 + reader.pad_token_id)
    tiny_checkpoint.save(folder, family, name, **sizes | config)
    reader.save_pretrained(folder)
    if family in READS_IMAGES:
        images_of(family).save_pretrained(folder)


def tokenizer(family: str) -> Any:
    """The library's tokenizer of a family, with a small vocabulary."""
    if family == "layoutlm":
        fast = tiny_tokenizers.wordpiece()
        vocabulary = [word for word, _ in sorted(fast.get_vocab().items(), key=lambda one: one[1])]
        ids = {word: number for number, word in enumerate(vocabulary)}
        return transformers.BertTokenizer(vocab=ids, model_max_length=LIMIT)
    if family == "lilt":  # as over XLM-RoBERTa; over RoBERTa it is LayoutLMv3's
        pieces = json.loads(tokenizer_of(*KINDS["XLMRobertaTokenizer"]).to_str())["model"]["vocab"]
        return transformers.LayoutXLMTokenizer(vocab=[*map(tuple, pieces)], model_max_length=LIMIT)
    model = json.loads(tiny_tokenizers.byte_level().backend_tokenizer.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    return transformers.LayoutLMv3Tokenizer(vocab=model["vocab"], merges=merges, model_max_length=LIMIT)


def images_of(family: str) -> Any:
    """The library's image processor, which reads no words."""
    return transformers.LayoutLMv3ImageProcessorPil(size={"height": SIDE, "width": SIDE}, apply_ocr=True)
