"""CLIP's tower of images alone (Radford et al. 2021, 2.4): its last norm is that of an image's vector."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import clip
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, VectorSpec

TASKS = {"image-feature-extraction": ("CLIPVisionModel", "CLIPVisionModelWithProjection")}
ORIGINALS = ("CLIPVisionModelWithProjection",)

NAMING = Naming("vision_model.")
PROJECTION = "visual_projection.weight"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; a projection shows in the checkpoint."""
    stack, projected = clip.vision_stack(config), PROJECTION in names
    size = config.integer("projection_dim", 512) if projected else None
    vector = VectorSpec(norm=stack.final_norm, size=size, compared=projected)
    return EncoderSpec(encoder=replace(stack, final_norm=None), vector=vector)


def table(spec: EncoderSpec) -> Table:
    """Where transformers keeps each parameter."""
    rules: Rules = clip.vision_rules("encoder", "") | {
        "vector.norm.*": "post_layernorm.*",
        "vector.project.weight": PROJECTION,
    }
    return Table(rules, NAMING, drop=("embeddings.position_ids",))
