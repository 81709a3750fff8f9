"""Qwen2-VL (Wang et al. 2024): images of any size, and M-RoPE: positions by frame, row and column."""

from txexport.checkpoints.weight_map import Table
from txexport.families import _packed, qwen2
from txexport.families._config import Config, TensorNames
from txexport.spec import FeedForwardSpec, NormSpec, VisionLanguageSpec

TASKS = {"image-text-to-text": ("Qwen2VLForConditionalGeneration",)}

REFUSED = {
    "ColQwen2": "it is a model of colpali-engine; export the one converted for transformers, such as "
    "vidore/colqwen2-v1.0-hf"
}
NAMING = _packed.NAMING
GRIDS = "grid_thw"  # the name of the graph's input in other clients, unlike that of its descendants


def spec(config: Config, task: str, names: TensorNames) -> VisionLanguageSpec:
    """The architecture that config.json describes."""
    vision = config.table("vision_config")
    width, layers = vision.integer("embed_dim", 1280), vision.count("depth", 32)
    feed_forward = FeedForwardSpec(
        width, int(width * vision.number("mlp_ratio", 4)), vision.activation("hidden_act", "quick_gelu")
    )
    norm = NormSpec(width, _packed.EPSILON)
    images = _packed.tower(vision, width, feed_forward, norm, [None] * layers, GRIDS)
    text = _packed.decoder(config, names, qwen2, _packed.DEFAULTS, _packed.in_sections)
    return _packed.model(config, text, images)


def table(spec: VisionLanguageSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return _packed.table(spec, qwen2, {"up.*": "fc1.*", "down.*": "fc2.*"})
