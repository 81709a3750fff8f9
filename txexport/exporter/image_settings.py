"""The settings of an image processor for images of another size."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.errors import BundleError, CheckpointError, UnsupportedError, shown
from txexport.runtime.preprocessing.image_defaults import DEFAULTS
from txexport.runtime.preprocessing.image_processors import processor
from txexport.runtime.preprocessing.image_sizes import edges
from txexport.runtime.preprocessing.preprocessor import ALONE, TOGETHER

IMAGES = "image_processor"


def settings_for(own: Mapping[str, Path | bytes], size: tuple[int, int], model_type: str) -> dict[str, bytes]:
    """The image processor's files among `own`, changed for images of `size`, (height, width) in pixels.

    The crop gets that size, and the size before the crop grows in proportion; without a crop, images are
    resized to it. Raises CheckpointError for a damaged file, UnsupportedError for an unknown processor.
    """
    result = {}
    for name in (ALONE, TOGETHER):
        if not isinstance(file := own.get(name), Path):
            continue
        try:
            content = read_json(file)
            if name == ALONE:
                content = content | _resized(content, size, model_type)
            elif isinstance(inner := content.get(IMAGES), dict):
                content = content | {IMAGES: inner | _resized(inner, size, model_type)}
        except BundleError as error:
            raise CheckpointError(str(error)) from None
        result[name] = (json.dumps(content, indent=2) + "\n").encode()
    return result


def _resized(settings: Mapping[str, Any], size: tuple[int, int], model_type: str) -> dict[str, Any]:
    """The changed values."""
    settings_given = {name: value for name, value in settings.items() if value is not None}
    asked = DEFAULTS[processor(settings, model_type)] | settings_given
    target = dict(zip(("height", "width"), size, strict=True))
    if "crop_pct" in asked:
        if size[0] != size[1]:
            raise UnsupportedError(
                f"image_size is {shown(size)}, but this image processor makes squares; expected one number"
            )
        return {"size": {"shortest_edge": size[0]}}
    if not asked["do_center_crop"]:
        return {"size": target}
    crop = edges("crop_size", asked["crop_size"], True)
    before = edges("size", asked["size"], asked["default_to_square"])
    if isinstance(crop, int):
        crop = (crop, crop)
    grown = [new / old for new, old in zip(size, crop, strict=True)]
    if isinstance(before, int):
        return {"size": {"shortest_edge": round(before * max(grown))}, "crop_size": target}
    height, width = (round(edge * share) for edge, share in zip(before, grown, strict=True))
    return {"size": {"height": height, "width": width}, "crop_size": target}
