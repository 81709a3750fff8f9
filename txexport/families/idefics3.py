"""Idefics3 (Laurençon et al. 2024): tiles of images, read by SigLIP's layers, among a decoder's tokens."""

import numpy as np

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import _pictured, siglip
from txexport.families._config import Config, TensorNames
from txexport.spec import ConnectorSpec, PatchSpec, SignalStackSpec, VisionLanguageSpec

TASKS = {"image-text-to-text": ("Idefics3ForConditionalGeneration",)}

TEXT, TOWER = "text_model.", "vision_model."
NAMING = Naming("model.")
MOST_PATCHES = 64  # a side
MISPLACED = (19, 38, 40, 54, 59)  # where PyTorch's bounds are further rounded; measured with 2.13
WITHOUT_TEXT = {"model_type": "llama", "rms_norm_eps": 1e-5}  # what a missing text_config means
DEFAULTS = {
    "hidden_size": 1152,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 16,
    "image_size": 224,
    "patch_size": 32,
}
CONNECTOR: Rules = {"connector.project.*": "connector.modality_projection.proj.*"}


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(text_config=WITHOUT_TEXT)
    vision, (_, text) = tower(config), _pictured.decoder(config, names)
    patches = vision.embedding
    assert isinstance(patches, PatchSpec)
    merged = config.integer("scale_factor", 2)
    _pictured.check_merged(config, "scale_factor", merged, patches.grid)
    connector = ConnectorSpec(
        hidden_size=vision.hidden_size,
        size=text.decoder.hidden_size,
        grid=patches.grid,
        bias=False,
        merged=merged,
    )
    token = config.integer("image_token_id", 128257)
    return VisionLanguageSpec(vision, connector, text.decoder, text.head, token, tiled=True)


def tower(config: Config) -> SignalStackSpec:
    """The image encoder. Raises UnsupportedError for a grid whose positions the original misses."""
    vision = config.table("vision_config").with_defaults(**DEFAULTS)
    stack = siglip.vision_stack(siglip.vision_config(vision))
    patches = stack.embedding
    assert isinstance(patches, PatchSpec)
    rows, columns = patches.grid
    if rows != columns or not in_order(rows):
        raise UnsupportedError(
            f"{config.path}: an image has {rows} x {columns} patches, some of which transformers gives the "
            "position of another by rounding; expected a square such as 26, 27 or 32"
        )
    return stack


def in_order(count: int) -> bool:
    """Tell whether the original gives each of `count` patches its own position.

    It compares shares of the image's side in float32 with bounds, of which a share may fall short.
    """
    shares = np.arange(count, dtype=np.float32) * np.float32(1 / count)
    bounds = (np.arange(count) / count).astype(np.float32)
    return count <= MOST_PATCHES and count not in MISPLACED and bool((shares >= bounds).all())


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    family, text = _pictured.decoder(config.with_defaults(text_config=WITHOUT_TEXT), names)
    rules, drop = _pictured.decoder_rules(family, text, TEXT)
    images, later = _pictured.tower_rules(tower(config), TOWER)
    return Table(rules | images | CONNECTOR, NAMING, (*drop, *later))
