"""A checkpoint's preprocessor settings, for images or for audio."""

from pathlib import Path

from txexport.bundle import read_json
from txexport.errors import BundleError, UnsupportedError

ALONE = "preprocessor_config.json"
TOGETHER = "processor_config.json"  # transformers 5 writes all of a model's processors into this one


def read_settings(folder: Path, part: str) -> dict:
    """The settings of `part`, "image_processor" or "feature_extractor", from either file.

    If both files have them, those in the file of all processors count, as in transformers. Raises
    BundleError.
    """
    settings = read_json(folder / TOGETHER, missing={}).get(part) or read_json(folder / ALONE, missing={})
    if not settings:
        raise BundleError(f"{folder} has no {ALONE}; save the {part} with the model and export again")
    if not isinstance(settings, dict):
        raise BundleError(f"{folder / TOGETHER}: {part} is a {type(settings).__name__}, expected an object")
    return settings


def check_kind(settings: dict, kind: str) -> None:
    """Raise UnsupportedError unless the settings are those of the feature extractor `kind`."""
    if (other := settings.get("feature_extractor_type")) != kind:
        raise UnsupportedError(f"feature extractor {other} is not supported; expected {kind}")
