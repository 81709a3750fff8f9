"""A tiny Florence-2 with its processor, and the places of its answers."""

from pathlib import Path
from typing import Any

import tiny_checkpoint
import tiny_tokenizers
import transformers

TOKEN, EDGE, VECTORS = "<image>", 24, 10
PLACES = [f"<loc_{number}>" for number in range(1000)]


def save(folder: Path, **config: Any) -> None:
    """Write a checkpoint whose processor makes images of 24 by 24 pixels, of ten vectors."""
    plain = tiny_tokenizers.byte_level()
    plain.add_tokens(PLACES, special_tokens=True)
    named = plain.special_tokens_map | {"extra_special_tokens": {"image_token": TOKEN}}
    tokenizer = transformers.BartTokenizer(tokenizer_object=plain.backend_tokenizer, **named)
    tokenizer.model_max_length = 400
    text = {"vocab_size": len(tokenizer), "max_position_embeddings": 400}
    token = tokenizer.convert_tokens_to_ids(TOKEN)
    tiny_checkpoint.save(folder, "florence2", text_config=text, image_token_id=token, **config)
    images = transformers.CLIPImageProcessorPil(
        size={"height": EDGE, "width": EDGE}, do_center_crop=False, image_seq_length=VECTORS
    )
    transformers.Florence2Processor(images, tokenizer).save_pretrained(folder)
