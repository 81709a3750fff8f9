"""A tiny Pix2Struct with its processor, and a font for its questions."""

from pathlib import Path
from typing import Any

import tiny_checkpoint
import tiny_tokenizers
import transformers
from PIL import ImageFont

SIDE, PATCHES = 6, 24


def save(folder: Path, questions: bool = False, font: bool = True, **config: Any) -> None:
    """Write a checkpoint whose processor makes up to 24 patches; of `questions`, it draws these above."""
    tokenizer = tiny_tokenizers.byte_level()
    sizes = {"text_config": {"vocab_size": len(tokenizer)}, "is_vqa": questions}
    tiny_checkpoint.save(folder, "pix2struct", **sizes | config)
    images = transformers.Pix2StructImageProcessorPil(
        patch_size={"height": SIDE, "width": SIDE}, max_patches=PATCHES, is_vqa=questions
    )
    transformers.Pix2StructProcessor(images, tokenizer).save_pretrained(folder)
    if questions and font:
        (folder / "Arial.TTF").write_bytes(letters())


def letters() -> bytes:
    """The font that Pillow has for want of another."""
    font = ImageFont.load_default(12)
    assert isinstance(font, ImageFont.FreeTypeFont)
    font.path.seek(0)
    return font.path.read()
