"""CLIP's image encoder (Radford et al. 2021, 2.4); its post-norm applies to the pooled vector."""

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
    """The architecture that config.json describes; the checkpoint shows whether there is a projection."""
    stack, projected = clip.vision_stack(config), PROJECTION in names
    size = config.integer("projection_dim", 512) if projected else None
    vector = VectorSpec(norm=stack.final_norm, size=size, compared=projected)
    return EncoderSpec(encoder=replace(stack, final_norm=None), vector=vector)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = clip.vision_rules("encoder", "") | {
        "vector.norm.*": "post_layernorm.*",
        "vector.project.weight": PROJECTION,
    }
    return Table(rules, NAMING, drop=("embeddings.position_ids",))
