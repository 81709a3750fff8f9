"""Tiny checkpoints of families that rank pages by late interaction, with the library's processors."""

from pathlib import Path
from typing import Any

import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers
from transformers.models.colpali.processing_colpali import EXTRA_TOKENS

SIDE = {"height": 24, "width": 24}
PIXELS = {"min_pixels": 16**2, "max_pixels": 48 * 40}
PACKING = [
    "<|image_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|endoftext|>",
]
FAMILIES = ("colpali", "colqwen2")
ROOM = 400  # the longest sequence


def save(folder: Path, family: str, padding_side: str = "left", **settings: Any) -> None:
    """Write a checkpoint of `family`; `settings` are those of its processor."""
    tokenizer = tiny_tokenizers.byte_level()
    tokenizer.padding_side = padding_side
    if family == "colpali":
        tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
        tokenizer.add_tokens(EXTRA_TOKENS)
        ids = {"image_token_index": tokenizer.convert_tokens_to_ids("<image>")}
    else:
        tokenizer.add_special_tokens({"additional_special_tokens": PACKING})
        names = ("image_token_id", "vision_start_token_id", "vision_end_token_id")
        ids = {name: tokenizer.convert_tokens_to_ids(one) for name, one in zip(names, PACKING, strict=False)}
    sizes = tiny_checkpoint.FAMILIES[family][1]["vlm_config"]
    text = sizes["text_config"] | {"vocab_size": len(tokenizer), "max_position_embeddings": ROOM}
    tiny_checkpoint.save(folder, family, vlm_config={**sizes, "text_config": text, **ids})
    if family == "colpali":
        images = transformers.SiglipImageProcessorPil(size=SIDE)
        images.image_seq_length = 16
        processor: Any = transformers.ColPaliProcessor(images, tokenizer, **settings)
    else:
        images = transformers.Qwen2VLImageProcessorPil(patch_size=4, **PIXELS)
        processor = transformers.ColQwen2Processor(images, tokenizer, **settings)
    processor.save_pretrained(folder)


def processor_of(folder: Path) -> Any:
    """The library's processor."""
    return transformers.AutoProcessor.from_pretrained(folder, backend="pil")


def network_of(folder: Path) -> Any:
    """The library's model."""
    return transformers.AutoModelForPreTraining.from_pretrained(folder).eval()


@torch.no_grad()
def vectors_of(network: Any, inputs: Any) -> list[torch.Tensor]:
    """The library's vectors of each row of its processor's inputs, without those of padding."""
    read = {name: value for name, value in inputs.items() if name != "labels"}
    vectors = network(**read).embeddings
    return [row[mask.bool()] for row, mask in zip(vectors, inputs["attention_mask"], strict=True)]
