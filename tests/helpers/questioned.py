"""A tiny BLIP that answers questions about images, with its processor."""

from pathlib import Path
from typing import Any

import tiny_checkpoint
import tiny_tokenizers
import transformers

ANSWERS = "BlipForQuestionAnswering"
EDGE = 24


def save(folder: Path, **config: Any) -> None:
    """Write a checkpoint whose processor makes images of 24 by 24 pixels, of 17 vectors."""
    plain = tiny_tokenizers.wordpiece()
    tokenizer = transformers.BertTokenizer(
        tokenizer_object=plain.backend_tokenizer, **plain.special_tokens_map
    )
    tokenizer.model_max_length = tiny_tokenizers.LIMIT
    text = {"vocab_size": len(tokenizer), "bos_token_id": 4}
    sizes = {"text_config": text, "vision_config": {"image_size": EDGE}}
    tiny_checkpoint.save(folder, "blip", ANSWERS, **sizes | config)
    images = transformers.BlipImageProcessorPil(size={"height": EDGE, "width": EDGE})
    transformers.BlipProcessor(images, tokenizer).save_pretrained(folder)
