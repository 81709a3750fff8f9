"""SigLIP 2 with images of any shape, NaFlex (Tschannen et al. 2025); those of one size are `siglip`."""

import math
from dataclasses import replace

from txexport.checkpoints.weight_map import Table
from txexport.errors import UnsupportedError
from txexport.families import clip, siglip, vit
from txexport.families._config import Config, TensorNames
from txexport.spec import DualEncoderSpec, NaflexSpec, Pick, SignalStackSpec

TASKS = {"zero-shot-image-classification": ("Siglip2Model",)}
NAMING = siglip.NAMING
REFUSED = {"Siglip2ForImageClassification": "labels from patches of any shape are not supported"}


def spec(config: Config, task: str, names: TensorNames) -> DualEncoderSpec:
    """The architecture that config.json describes; texts are padded to max_position_embeddings."""
    vision = siglip.vision_config(config.table("vision_config")).with_defaults(num_patches=256)
    vision.expect(vision_use_head=True)
    text = siglip.text_config(config.table("text_config"))
    images = vision_stack(vision)
    return DualEncoderSpec(
        text=siglip.text_stack(text),
        vision=images,
        size=siglip.text_size(text),
        pick=Pick.FINAL,
        text_bias=True,
        vision_pool=siglip.pool(images),
        sigmoid_scores=True,
    )


def vision_stack(config: Config) -> SignalStackSpec:
    """The image encoder, whose attention leaves out padding."""
    positions = config.integer("num_patches")
    side = math.isqrt(max(positions, 0))
    if side**2 != positions:
        raise UnsupportedError(
            f"{config.path}: num_patches={positions} is not supported; expected a square, as of 16 by 16"
        )
    stack = clip.vision_stack(config)
    (block,) = stack.blocks
    embedding = NaflexSpec(stack.hidden_size, vit.patch_size(config), side, config.integer("num_channels", 3))
    masked = replace(block, attention=replace(block.dense, unmasked=False))
    return replace(stack, embedding=embedding, blocks=(masked,))


def table(spec: DualEncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    return siglip.table(spec)
