"""LLaVA-OneVision (Li et al. 2024): SigLIP's tiles as one map, which is reduced if it is large, for Qwen2."""

import re

from txexport.checkpoints.weight_map import Table
from txexport.errors import UnsupportedError
from txexport.families import _pictured, llava, llava_next
from txexport.families._config import Config, TensorNames
from txexport.spec import VisionLanguageSpec

TASKS = {"image-text-to-text": ("LlavaOnevisionForConditionalGeneration",)}

NAMING = _pictured.NAMING
ALIASES = llava.ALIASES | {"video_token_id": "video_token_index"}
CANVASES = [[384 * rows, 384 * columns] for rows in range(1, 7) for columns in range(1, 7)]
# What config.json means where it describes no image encoder.
SO400M = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "patch_size": 14,
    "image_size": 384,
    "num_hidden_layers": 26,
    "num_attention_heads": 16,
}


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    ratio = config.text("vision_aspect_ratio", "anyres_max_9")
    most = re.fullmatch(r"anyres_max_([1-9]\d?)", ratio)
    if most is None:
        raise UnsupportedError(f"{config.path}: vision_aspect_ratio is {ratio!r}, expected 'anyres_max_9'")
    config = completed(config)
    return llava_next.in_tiles(config, llava.spec(config, task, names), CANVASES, int(most[1]))


def completed(config: Config) -> Config:
    """The values of config.json, with the library's defaults."""
    config = config.with_defaults(
        vision_config=SO400M,
        text_config={},
        vision_feature_layer=-1,
        vision_feature_select_strategy="full",
        image_token_index=151646,
    )
    vision, text = (config.table(key).values for key in ("vision_config", "text_config"))
    return config.replaced(
        vision_config={"model_type": "siglip_vision_model", **vision},
        text_config={"model_type": "qwen2", **text},
    )


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers."""
    return llava_next.table_of(completed(config), task, names)
