"""A tiny LLaVA with its processor and chat template, and images of odd sizes."""

import io
from pathlib import Path

import numpy as np
import tiny_checkpoint
import tiny_tokenizers
import transformers
from PIL import Image
from tokenizers import processors

TEMPLATE = (
    "{% for message in messages %}{{ message.role | upper }}: "
    "{% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}{% if part.type == 'image' %}<image>\n"
    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %} "
    "{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
TEXT = {"max_position_embeddings": 400}
VISION = {"image_size": 24}


def save(folder: Path, **config) -> None:
    """Write a checkpoint whose images are of 24 by 24 pixels, and so of 16 vectors."""
    tokenizer = tiny_tokenizers.byte_level()
    start = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)])
    tokenizer.backend_tokenizer.post_processor = start  # as LLaMA's: nothing ends a prompt
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    tokenizer.model_max_length = TEXT["max_position_embeddings"]
    token = tokenizer.convert_tokens_to_ids("<image>")
    sizes = {"text_config": TEXT, "vision_config": VISION, "image_token_id": token}
    tiny_checkpoint.save(folder, "llava", **sizes | config)
    size = {"height": 24, "width": 24}
    images = transformers.CLIPImageProcessorPil(size={"shortest_edge": 24}, crop_size=size)
    transformers.LlavaProcessor(
        images,
        tokenizer,
        patch_size=6,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    ).save_pretrained(folder)


def picture(width: int, height: int, seed: int = 0) -> Image.Image:
    """A random image."""
    pixels = np.random.default_rng([seed, width, height]).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(pixels)


def encoded(image: Image.Image) -> bytes:
    """The bytes of a PNG file."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
