"""Pixtral's processor without torchvision: transformers' own, over its image processor with Pillow."""

import importlib
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import transformers

SIDE = 5  # of patches in tiny checkpoints
NAMES = {"image_token": "[IMG]", "image_break_token": "[IMG_BREAK]", "image_end_token": "[IMG_END]"}


@cache
def _module() -> Any:
    """transformers' processing_pixtral, without the module of torchvision, which nothing here needs."""
    name = "transformers.models.pixtral.image_processing_pixtral"
    images = ModuleType(name)
    images.get_resize_output_image_size = None  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, {name: images}):
        return importlib.import_module("transformers.models.pixtral.processing_pixtral")


def save_settings(folder: Path, merged: int) -> None:
    """Write the settings of a checkpoint's processor, of squares of `merged` by `merged` patches."""
    settings = {"processor_class": "PixtralProcessor", "patch_size": SIDE, "spatial_merge_size": merged}
    (folder / "processor_config.json").write_text(json.dumps(settings | NAMES))


def processor(folder: Path, merged: int) -> Any:
    """A checkpoint's processor, of squares of `merged` by `merged` patches."""
    kind = _module().PixtralProcessor
    result = kind.__new__(kind)
    result.image_processor = transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")
    result.tokenizer = tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    result.chat_template = tokenizer.chat_template
    result.patch_size, result.spatial_merge_size = SIDE, merged
    for name, token in NAMES.items():
        setattr(result, name, token)
        setattr(result, f"{name}_id", tokenizer.convert_tokens_to_ids(token))
    return result
