"""LFM2-VL's processor without torchvision, which transformers wrote its part for images for.

That is the library's own class over its Pillow backend, whose methods here take tensors of several images, in
place of that of torchvision. What differs from the original is how bytes are resized: by Pillow, not by
PyTorch, which was one byte at most in measurements with torchvision 0.28.
"""

import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import transformers
from transformers.image_processing_backends import PilBackend
from transformers.models.lfm2_vl.processing_lfm2_vl import Lfm2VlProcessor

from helpers.sam2_processor import loaded

MODULES = ("torchvision", "torchvision.transforms", "torchvision.transforms.v2")


class TensorBackend(PilBackend):
    """The Pillow backend over tensors (B,channels,height,width), one image after another."""

    def process_image(self, image, **options):
        """An image as a tensor."""
        return torch.from_numpy(super().process_image(image, **options).copy())

    def resize(self, image, size, resample=None, **options):
        """Images of a size."""
        rows = [PilBackend.resize(self, one.numpy(), size, resample) for one in image]
        return torch.stack([torch.from_numpy(row) for row in rows])

    def rescale_and_normalize(self, images, do_rescale, scale, do_normalize, mean, deviation):
        """The values of images."""
        rows = []
        for one in images.numpy():
            one = self.rescale(one, scale) if do_rescale else one
            rows.append(torch.from_numpy(self.normalize(one, mean, deviation) if do_normalize else one))
        return torch.stack(rows)


@cache
def module() -> Any:
    """transformers' image_processing_lfm2_vl over that backend."""
    stand_ins = {name: ModuleType(name) for name in MODULES}
    stand_ins[MODULES[-1]].functional = None  # type: ignore[attr-defined]
    return loaded("lfm2_vl", TensorBackend, stand_ins)


def image_processor(**settings: Any) -> Any:
    """An image processor of LFM2-VL."""
    return module().Lfm2VlImageProcessor(**settings)


def processor(folder: Path, **settings: Any) -> Any:
    """A checkpoint's processor; its part for images has other `settings`, or those of the checkpoint."""
    images = settings and image_processor(**settings)
    result = Lfm2VlProcessor.__new__(Lfm2VlProcessor)
    result.image_processor = images or module().Lfm2VlImageProcessor.from_pretrained(folder)
    result.tokenizer = tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    result.chat_template = tokenizer.chat_template
    result.image_start_token, result.image_end_token = "<|image_start|>", "<|image_end|>"
    result.image_token, result.image_thumbnail_token = "<image>", "<|img_thumbnail|>"
    result.image_token_id = tokenizer.convert_tokens_to_ids("<image>")
    result.multimodal_pattern = re.compile("(?P<image><image>)")
    return result
