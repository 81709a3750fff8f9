"""A checkpoint's preprocessor settings, for images or for audio."""

from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.errors import BundleError, UnsupportedError

ALONE = "preprocessor_config.json"
# The feature extractor of a model type, in transformers, if the file names no class.
OF_MODEL = {
    "audio-spectrogram-transformer": "ASTFeatureExtractor",
    "clap": "ClapFeatureExtractor",
    "data2vec-audio": "Wav2Vec2FeatureExtractor",
    "hubert": "Wav2Vec2FeatureExtractor",
    "moonshine": "Wav2Vec2FeatureExtractor",
    "unispeech": "Wav2Vec2FeatureExtractor",
    "unispeech-sat": "Wav2Vec2FeatureExtractor",
    "wav2vec2": "Wav2Vec2FeatureExtractor",
    "omniasr_ctc": "OmniASRFeatureExtractor",
    "speech_to_text": "Speech2TextFeatureExtractor",
    "parakeet_ctc": "ParakeetFeatureExtractor",
    "whisper": "WhisperFeatureExtractor",
}
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


def extractor_settings(folder: Path) -> dict:
    """The settings of the feature extractor, with the class that config.json implies if they name none."""
    settings = read_settings(folder, "feature_extractor")
    if settings.get("feature_extractor_type") is not None:
        return settings
    model_type = read_json(folder / "config.json", missing={}).get("model_type")
    return settings | {"feature_extractor_type": OF_MODEL.get(str(model_type))}


def check_kind(settings: dict, kind: str, **only: Any) -> None:
    """Raise UnsupportedError for another feature extractor than `kind`, and for other values than `only`."""
    if (other := settings.get("feature_extractor_type")) != kind:
        raise UnsupportedError(f"feature extractor {other} is not supported; expected {kind}")
    for name, value in only.items():
        if settings.get(name) not in (None, value):
            raise UnsupportedError(f"feature extractor: {name} {settings[name]!r} is not supported")
