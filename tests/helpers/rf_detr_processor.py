"""RF-DETR's image processor without torchvision, which transformers wrote it for.

It is the library's own class over the library's own backend, with the functions of torchvision that they call
replaced by their definitions in PyTorch.
"""

from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.nn.functional import interpolate
from transformers import image_processing_backends
from transformers.models.auto import image_processing_auto  # which asks for the version of torchvision

from helpers import sam2_processor

BILINEAR = 2  # of Pillow


def resize(image: torch.Tensor, size: tuple[int, int], interpolation: str, antialias: bool) -> torch.Tensor:
    """As torchvision.transforms.v2.functional.resize of numbers (B,3,H,W)."""
    return interpolate(image, size, mode=interpolation, align_corners=False, antialias=antialias)


def normalize(image: torch.Tensor, mean: Any, std: Any, inplace: bool = False) -> torch.Tensor:
    """As torchvision's of numbers (B,3,H,W)."""
    centre, deviation = (torch.tensor(part, dtype=image.dtype).reshape(-1, 1, 1) for part in (mean, std))
    return (image - centre) / deviation


def pad(image: torch.Tensor, padding: list[int], fill: float = 0) -> torch.Tensor:
    """As torchvision's, by left, top, right, bottom."""
    left, top, right, bottom = padding
    return torch.nn.functional.pad(image, (left, right, top, bottom), value=fill)


def pil_to_tensor(image: Any) -> torch.Tensor:
    """As torchvision's: an image (3,H,W)."""
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


MODES = SimpleNamespace(BILINEAR="bilinear", BICUBIC="bicubic", NEAREST="nearest", LANCZOS="lanczos")


@cache
def module() -> Any:
    """transformers' image_processing_rf_detr over its own backend."""
    assert image_processing_auto
    functions = ModuleType("torchvision.transforms.v2.functional")
    vars(functions).update(
        InterpolationMode=MODES, resize=resize, normalize=normalize, pad=pad, pil_to_tensor=pil_to_tensor
    )
    version = ModuleType("torchvision.transforms.v2")
    version.functional = functions  # type: ignore[attr-defined]
    stand_ins = {name: ModuleType(name) for name in ("torchvision", "torchvision.transforms")}
    stand_ins |= {version.__name__: version, functions.__name__: functions}
    vars(image_processing_backends).update(
        tvF=functions, pil_torch_interpolation_mapping={BILINEAR: MODES.BILINEAR}
    )
    backend = image_processing_backends.TorchvisionBackend
    return sam2_processor.loaded("rf_detr", backend, stand_ins)


def processor(**settings: Any) -> Any:
    """An image processor of RF-DETR."""
    return module().RfDetrImageProcessor(**settings)
