"""Qwen2.5-VL (Bai et al. 2025): Qwen2-VL with windows in the image encoder."""

from txexport.checkpoints.weight_map import Table
from txexport.errors import UnsupportedError
from txexport.families import _packed, qwen2, vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import FeedForwardSpec, NormKind, NormSpec, VisionLanguageSpec

TASKS = {"image-text-to-text": ("Qwen2_5_VLForConditionalGeneration",)}

NAMING = _packed.NAMING
FULL_LAYERS = [7, 15, 23, 31]


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    vision = config.table("vision_config")
    width = vision.integer("hidden_size", 3584)
    activation = vision.activation("hidden_act", "silu")
    size = vision.integer("intermediate_size", 3420)
    feed_forward = FeedForwardSpec(width, size, activation, gated=True)
    norm = NormSpec(width, _packed.EPSILON, NormKind.RMS)
    images = _packed.tower(vision, width, feed_forward, norm, windows(vision))
    text = _packed.decoder(config, names, qwen2, _packed.DEFAULTS, _packed.in_sections)
    return _packed.model(config, text, images)


def windows(vision: Config) -> list[int | None]:
    """The window of each layer, in patches a side; None for those of fullatt_block_indexes."""
    full = vision.values.get("fullatt_block_indexes", FULL_LAYERS)
    merged = vision.integer("spatial_merge_size", 2)
    side = vision.integer("window_size", 112) // merged // vit.patch_size(vision.with_defaults(patch_size=14))
    if side < 1 or not isinstance(full, list):
        raise UnsupportedError(
            f"{vision.path}: windows of {side} squares of patches but in layers {shortened(full)}; expected "
            "one square or more, and a list"
        )
    return [None if layer in full else side * merged for layer in range(vision.count("depth", 32))]


def table(spec: VisionLanguageSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return _packed.table(spec, qwen2, {f"{name}.*": f"{name}_proj.*" for name in ("up", "gate", "down")})
