"""SigLIP's image encoder (Zhai et al. 2023), with or without the attention pooling."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import clip, siglip
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, VectorSpec

TASKS = {"image-feature-extraction": ("SiglipVisionModel",)}

NAMING = Naming("vision_model.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    vision = siglip.vision_config(config)
    stack, pooled = siglip.vision_stack(vision), vision.flag("vision_use_head", True)
    return EncoderSpec(encoder=stack, vector=VectorSpec(pool=siglip.pool(stack)) if pooled else None)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = clip.vision_rules("encoder", "") | siglip.pool_rules("vector.pool", "head.")
    rules["encoder.final_norm.*"] = "post_layernorm.*"
    return Table(rules, NAMING, drop=("embeddings.position_ids",))
