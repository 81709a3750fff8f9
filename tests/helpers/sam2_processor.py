"""SAM 2's image processor without torchvision, which transformers wrote it for.

It is the library's own class over its Pillow backend in place of that of torchvision, with the one function
of torchvision that it calls. What differs from the original is how bytes are resized: by Pillow, not by
PyTorch; tests/runtime/preprocessing/test_images.py says by how much.
"""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
import transformers
from transformers import image_processing_backends


def suppressed(boxes, scores, idxs, iou_threshold):
    """The boxes that torchvision's batched_nms keeps, of one class."""
    chosen = []
    for number in torch.argsort(scores, descending=True, stable=True).tolist():
        for other in chosen:
            low = torch.maximum(boxes[number, :2], boxes[other, :2])
            high = torch.minimum(boxes[number, 2:], boxes[other, 2:])
            shared = (high - low).clamp(min=0).prod()
            areas = [(boxes[one, 2:] - boxes[one, :2]).prod() for one in (number, other)]
            if shared / (areas[0] + areas[1] - shared) > iou_threshold:
                break
        else:
            chosen.append(number)
    return torch.tensor(chosen, dtype=torch.long)


def loaded(family: str, backend: Any, stand_ins: dict[str, ModuleType]) -> Any:
    """transformers' image_processing_{family} over a backend, with modules in place of torchvision's."""
    name = f"image_processing_{family}"
    path = Path(transformers.__file__).parent / "models" / family / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"transformers.models.{family}.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    result = importlib.util.module_from_spec(spec)
    pillow = mock.patch.object(image_processing_backends, "TorchvisionBackend", backend)
    with mock.patch.dict(sys.modules, stand_ins | {spec.name: result}), pillow:
        spec.loader.exec_module(result)
    return result


@cache
def module() -> Any:
    """transformers' image_processing_sam2, its class over the Pillow backend."""
    stand_ins = {
        name: ModuleType(name) for name in ("torchvision", "torchvision.ops", "torchvision.ops.boxes")
    }
    stand_ins["torchvision.ops.boxes"].batched_nms = suppressed  # type: ignore[attr-defined]
    return loaded("sam2", image_processing_backends.PilBackend, stand_ins)


def processor(**settings: Any) -> Any:
    """An image processor of SAM 2."""
    return module().Sam2ImageProcessor(**settings)
