"""An image checkpoint for another image size: its position embeddings are interpolated once.

transformers does it in each call, by `interpolate_pos_encoding=True` in ViT, DeiT, CLIP and SigLIP: bicubic
(Keys 1981, a = -0.75), edges repeated, not antialiased.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.stored import Stored
from txexport.errors import InputError, UnsupportedError, shown

# Families without a table of positions, or whose graphs interpolate it: the checkpoint stays unchanged.
ANY_SIZE = (
    *("dinov2", "dinov2_with_registers", "dinov3_vit", "yolos", "swin", "swinv2", "depth_anything"),
    *("segformer", "glpn", "maskformer", "mask2former", "detr", "table-transformer", "rt_detr", "rt_detr_v2"),
    *("d_fine", "dab-detr", "lw_detr", "rf_detr"),
    *("grounding-dino", "resnet", "convnext", "convnextv2", "hiera", "upernet"),
    *("deformable_detr", "conditional_detr", "donut-swin", "clipseg"),
)
ONE_SIZE = ("layoutlmv3", "blip")
SQUARES = ("clipseg",)  # families of ANY_SIZE that make a square map of an image's patches
LEARNED = ("cls_token", "distillation_token", "class_embedding")  # vectors before the patches
# The projection of patches, and the table of positions, of ViT and of CLIP.
TABLES = {
    "embeddings.patch_embeddings.projection.weight": "embeddings.position_embeddings",
    "embeddings.patch_embedding.weight": "embeddings.position_embedding.weight",
}
TOWERS = ("vision_config_dict", "vision_config")  # in old files the first name takes precedence
A = -0.75
MOST = 2**12  # pixels of one side


class Resized(Checkpoint):
    """The checkpoint `whole` for images of `image_size`, height and width in pixels.

    For families in ANY_SIZE nothing else changes. Raises InputError for a size that holds no patch or is too
    large, UnsupportedError for a model that has no such positions.
    """

    def __init__(self, whole: Checkpoint, image_size: Sequence[int]):
        vars(self).update(vars(whole))
        if len(image_size) != 2 or not all(1 <= pixels <= MOST for pixels in image_size):
            raise InputError(f"image_size is {shown(image_size)}, expected 1 to {MOST} pixels high and wide")
        self.whole, self.image_size = whole, (image_size[0], image_size[1])
        self.interpolated = whole.config.get("model_type") not in ANY_SIZE
        if whole.config.get("model_type") in SQUARES and image_size[0] != image_size[1]:
            raise UnsupportedError(
                f"image_size is {shown(image_size)}, but {whole.config['model_type']} reads squares alone"
            )
        if not self.interpolated:
            return
        if "vlm_config" in whole.config:
            raise UnsupportedError(
                f"image_size is not supported for {whole.config.get('model_type')}, whose processor decides "
                "the size of pages; leave it out"
            )
        if (kind := whole.config.get("model_type")) in ONE_SIZE:
            raise UnsupportedError(
                f"image_size is not supported for {kind}, whose images have one size; leave it out"
            )
        patches = next((name for name in whole.tensors if name.endswith(tuple(TABLES))), None)
        kernel = () if patches is None else whole.tensors[patches].shape
        side = kernel[-1:]
        if patches is None or len(kernel) != 4 or not side[0]:  # a matrix reads patches of any shape
            raise UnsupportedError(
                f"image_size is for models of images of one size, which {whole.folder} is not; leave it out"
            )
        prefix, _, _ = patches.rpartition("embeddings.patch")
        ending = TABLES[patches.removeprefix(prefix)]
        self.table = f"{prefix}{ending}"
        self.grid = image_size[0] // side[0], image_size[1] // side[0]
        if min(self.grid) < 1:
            raise InputError(
                f"image_size is {shown(image_size)}, expected at least the patch size, {side[0]} pixels"
            )
        if ending.endswith("weight") and image_size[0] != image_size[1]:
            raise UnsupportedError(
                f"image_size is {shown(image_size)}, but this model's config has one number"
            )
        self.tokens = sum(f"{prefix}embeddings.{name}" in whole.tensors for name in LEARNED)
        stored = whole.tensors.get(self.table)
        if not isinstance(stored, Stored) or not _is_square(stored.shape, self.tokens):
            raise UnsupportedError(
                f"{whole.folder} has no position embeddings of a square image: '{self.table}'"
            )
        shape = (*stored.shape[:-2], self.tokens + math.prod(self.grid), stored.shape[-1])
        self.tensors = whole.tensors | {self.table: replace(stored, shape=shape)}
        self.config, self.in_safetensors, self.as_published = self._config(), False, False

    def rows(self, name: str, number: int | None = None) -> Iterator[np.ndarray]:
        """See Checkpoint."""
        if not self.interpolated or name != self.table:
            yield from self.whole.rows(name, number)
            return
        table = self.whole.read(name)
        side = math.isqrt(table.shape[-2] - self.tokens)
        flat = table.reshape(table.shape[-2:])  # (tokens + side * side, W)
        interpolated = bicubic(flat[self.tokens :].reshape(side, side, -1), self.grid)
        yield np.concatenate([flat[: self.tokens], interpolated.reshape(-1, table.shape[-1])]).reshape(
            self.tensors[name].shape
        )

    def companions(self) -> dict[str, Path | bytes]:
        """See Checkpoint; config.json has the size."""
        files = self.whole.companions()
        if self.interpolated and "config.json" in files:
            files["config.json"] = (json.dumps(self.config, indent=2) + "\n").encode()
        return files

    def hashes(self) -> dict[str, str]:
        """See Checkpoint."""
        return self.whole.hashes()

    def _config(self) -> dict[str, Any]:
        height, width = self.image_size
        size = {"image_size": height if height == width else [height, width]}
        config = self.whole.config
        tower = next((name for name in TOWERS if isinstance(config.get(name), dict) and config[name]), None)
        return config | size if tower is None else config | {tower: config[tower] | size}


def _is_square(shape: tuple[int, ...], tokens: int) -> bool:
    """Tell whether a table has `tokens` positions, and then a square of patches."""
    places = shape[-2] - tokens if len(shape) > 1 else 0
    return places > 0 and math.isqrt(places) ** 2 == places


def bicubic(table: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """table (rows,columns,W) -> (size[0],size[1],W) float32, as PyTorch interpolates without align_corners.

    Computed in float64 by sums and products alone: the same bits on every processor, and more accurate than
    PyTorch's float32.
    """
    wide, shares = _taps(table.shape[1], size[1])
    across = sum(shares[k][:, None] * table[:, wide[k]] for k in range(4))  # (rows, size[1], W)
    high, shares = _taps(table.shape[0], size[0])
    result = sum(shares[k][:, None, None] * across[high[k]] for k in range(4))
    return np.asarray(result, np.float32)


def _taps(old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    """The indices (4,new) of the `old` values that make each of `new` values, and their weights (4,new)."""
    centres = old / new * (np.arange(new) + 0.5) - 0.5
    first = np.floor(centres)
    t = centres - first
    taps = np.clip(first.astype(int) + np.arange(-1, 3)[:, None], 0, old - 1)
    return taps, np.stack([_far(t + 1), _near(t), _near(1 - t), _far(2 - t)])


def _near(x: np.ndarray) -> np.ndarray:
    """The weight of a value at a distance of up to 1."""
    return ((A + 2) * x - (A + 3)) * x * x + 1


def _far(x: np.ndarray) -> np.ndarray:
    """The weight of a value at a distance of 1 to 2."""
    return ((A * x - 5 * A) * x + 8 * A) * x - 4 * A
