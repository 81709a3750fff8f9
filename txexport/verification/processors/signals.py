"""Checks of the bundle's processors of images and sounds against transformers'."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.image_size import Resized
from txexport.contracts.names import ATTENTION_MASK, INPUT_VALUES, PIXEL_ATTENTION_MASK, PIXEL_VALUES
from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.preprocessing.extractors.filter_bank import FilterBank
from txexport.runtime.preprocessing.extractors.normalised_filter_bank import NormalisedFilterBank
from txexport.runtime.preprocessing.extractors.normalised_log_mel import NormalisedLogMel
from txexport.runtime.preprocessing.extractors.omniasr_waveform import OmniASRWaveform
from txexport.runtime.preprocessing.extractors.repeated_log_mel import RepeatedLogMel
from txexport.runtime.preprocessing.preprocessor import ALONE, TOGETHER
from txexport.verification.checks import SkipError, TensorCheck
from txexport.verification.processors.original import original

SIZES = (
    (37, 53),
    (53, 37),
    (224, 224),
    (225, 301),
    (500, 19),
    (1, 7),
)  # height, width; two if `quick`
# Pillow's modes of images.
MODES = ("RGB", "L", "RGBA", "LA", "P", "CMYK", "1")
VALUES = 1e-5  # for processors that resize with PyTorch; those of Pillow are equal
FEATURES = 1e-4  # for logarithms, which transformers computes in float32
# For logarithms that are divided by their deviation: in silence, that multiplies the rounding without bound.
NORMALISED, LOUD = 1e-3, ("noise", "a tone", "a long noise")


def check_images(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool
) -> list[TensorCheck]:
    """Compare pixel values of images of every mode and several sizes. Raises SkipError."""
    check_there(folder, "image processor")
    if find_spec("PIL") is None:
        raise SkipError("Pillow is not installed")
    if isinstance(checkpoint, Resized):
        raise SkipError("export changed the size of images, so that it is not the checkpoint's")
    try:
        ours = BundleFiles(folder).images
    except (BundleError, UnsupportedError) as error:
        raise SkipError(str(error)) from None
    tolerance = VALUES if ours.resizes_values else ours.byte and ours.byte + VALUES
    options: dict[str, Any] = {"apply_ocr": False} if ours.kind == "LayoutLMv3ImageProcessor" else {}
    options["backend"] = "pil"
    with original("AutoImageProcessor", checkpoint, manifest.model_type, **options) as theirs:
        checks = []
        for name, image in images_of_modes(quick):
            converted = image if theirs.do_convert_rgb else image.convert("RGB")
            try:
                inputs = ours.inputs(image)
            except InputError:
                _check_refused(theirs, converted, name)
                continue
            expected = theirs(converted, return_tensors="np")
            checks += [
                difference(f"{key.replace('_', ' ')} of {name}", value, expected[key], tolerance)
                for key, value in inputs.items()
            ]
        return checks


def check_sounds(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, *, quick: bool
) -> list[TensorCheck]:
    """Compare features of sounds of several kinds and lengths. Raises SkipError."""
    check_there(folder, "feature extractor")
    try:
        ours = BundleFiles(folder).extractor
    except (BundleError, UnsupportedError) as error:
        raise SkipError(str(error)) from None
    if ours.kind in (FilterBank.kind, NormalisedFilterBank.kind) and find_spec("torchaudio") is not None:
        raise SkipError("with torchaudio transformers computes filter banks differently")
    with original("AutoFeatureExtractor", checkpoint, manifest.model_type) as theirs:
        checks = []
        sounds, tolerance = _sounds(ours.rate, quick), FEATURES
        if ours.kind in (NormalisedLogMel.kind, NormalisedFilterBank.kind):
            sounds, tolerance = [one for one in sounds if one[0] in LOUD], NORMALISED
        if isinstance(ours, RepeatedLogMel):  # of long ones transformers reads a part at random
            sounds = [one for one in sounds if len(one[1]) <= ours.samples]
        for name, sound in sounds:
            features = _made(theirs, ours.kind, sound, ours.rate)
            computed = ours.features(sound, truncate=True)
            checks.append(difference(f"features of {name}", computed, features[ours.port], tolerance))
        if ours.masked:
            batch = [sound for _, sound in sounds]
            padded = _made(theirs, ours.kind, batch, ours.rate, padding=True)
            for port, computed in ours.inputs(batch).items():
                checks.append(difference(f"{port} of sounds in a batch", computed, padded[port], tolerance))
        return checks


def _made(theirs: Any, extractor: str, sounds: Any, rate: int, **options: bool) -> Mapping[str, Any]:
    """The original's features by the names of a graph's inputs; Omnilingual ASR's are tensors (B,1,N)."""
    if extractor != OmniASRWaveform.kind:
        features: Mapping[str, Any] = theirs(sounds, sampling_rate=rate, return_tensors="np", **options)
        return features
    features = theirs(sounds, sampling_rate=rate, return_tensors="pt", **options)
    return {INPUT_VALUES: features[INPUT_VALUES][:, 0], ATTENTION_MASK: features["padding_mask"]}


def check_there(folder: Path, what: str) -> None:
    if not any((folder / name).is_file() for name in (ALONE, TOGETHER)):
        raise SkipError(f"no {what} there")


def _check_refused(processor: Any, image: Any, name: str) -> None:
    """Raise AssertionError for an image that the processor of transformers reads."""
    try:
        inputs = processor(image, return_tensors="np")
    except (ValueError, RuntimeError):
        return
    patches, mask = (inputs.get(name) for name in (PIXEL_VALUES, PIXEL_ATTENTION_MASK))
    if patches is not None and patches.ndim == 3 and mask is not None and patches.shape[:2] != mask.shape:
        return  # no model reads more patches than their mask has
    raise AssertionError(f"{name} is refused, but transformers reads it")


def difference(what: str, found: np.ndarray, expected: Any, tolerance: float) -> TensorCheck:
    """The largest difference of arrays of one shape. Raises AssertionError for different shapes."""
    wanted = np.asarray(expected)
    if found.shape != wanted.shape:
        raise AssertionError(f"{what} are {found.shape}, in transformers {wanted.shape}")
    return TensorCheck(what, found.size, float(np.abs(found - wanted).max()), tolerance)


def images_of_modes(quick: bool) -> Iterator[tuple[str, Any]]:
    """Noise on a gradient, by its description; filters, offsets and swapped axes all show in it."""
    from PIL import Image

    for number, (height, width) in enumerate(SIZES[: 2 if quick else None]):
        draw = np.random.default_rng(number)
        slope = np.linspace(0, 150, height)[:, None, None] + np.linspace(0, 40, 4)
        values = (slope + draw.integers(0, 60, (height, width, 4))).astype(np.uint8)
        for mode in MODES if number == 0 else MODES[:1]:
            image = (
                Image.fromarray(values, "RGBA")
                if mode in ("RGBA", "LA")
                else Image.fromarray(values[..., :3])
            )
            yield f"an image of mode {mode}, {height} by {width}", image.convert(mode)


@cache
def _sounds(rate: int, quick: bool) -> list[tuple[str, np.ndarray]]:
    """Sounds (N,) float32 by their description."""
    draw, time = np.random.default_rng(0), np.arange(rate) / rate
    sounds = {"noise": 0.3 * draw.standard_normal(rate // 2), "a tone": np.sin(2 * np.pi * 440 * time)}
    if not quick:
        sounds |= {
            "faint noise": 1e-4 * draw.standard_normal(rate),
            "silence": np.zeros(rate // 3),
            "an offset": 0.4 + 1e-4 * np.cos(900 * time),
            "a long noise": 0.1 * draw.standard_normal(31 * rate),
        }
    return [(name, samples.astype(np.float32)) for name, samples in sounds.items()]
