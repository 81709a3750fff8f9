"""SigLIP (Zhai et al. 2023): CLIP's encoders without CLS; each pair is scored by a sigmoid."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import clip
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AttentionPoolSpec,
    DualEncoderSpec,
    EncoderSpec,
    FeedForwardSpec,
    PatchSpec,
    Pick,
    SignalStackSpec,
    TextStackSpec,
)

TASKS = {
    "zero-shot-image-classification": ("SiglipModel",),
    "image-classification": ("SiglipForImageClassification",),
}

NAMING = Naming()
LAYERS = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
COMMON = LAYERS | {"hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6}


def spec(config: Config, task: str, names: TensorNames) -> DualEncoderSpec | EncoderSpec:
    """The architecture that config.json describes; texts are padded to max_position_embeddings."""
    vision = vision_config(config.table("vision_config"))
    if task == "image-classification":
        return clip.labelled(config, vision_stack(vision), tokens=0)
    vision.expect(vision_use_head=True)
    text, images = text_config(config.table("text_config")), vision_stack(vision)
    return DualEncoderSpec(
        text=text_stack(text),
        vision=images,
        size=text_size(text),
        pick=Pick.FINAL,
        text_bias=True,
        vision_pool=pool(images),
        sigmoid_scores=True,
    )


def text_config(config: Config) -> Config:
    """The values of text_config, with the library's defaults."""
    return config.with_defaults(**COMMON, vocab_size=32000, max_position_embeddings=64)


def vision_config(config: Config) -> Config:
    """The values of vision_config, with the library's defaults."""
    return config.with_defaults(**COMMON, patch_size=16)


def text_size(config: Config) -> int:
    """The dimensions of a text's vector."""
    return config.integer("projection_size", config.integer("hidden_size"))


def text_stack(config: Config) -> TextStackSpec:
    """The text encoder, with bidirectional attention."""
    stack = clip.text_stack(config)
    (block,) = stack.blocks
    return replace(stack, blocks=(replace(block, attention=replace(block.dense, causal=False)),))


def vision_stack(config: Config) -> SignalStackSpec:
    """The image encoder: patches without CLS, projected with a bias."""
    stack = clip.vision_stack(config)
    assert isinstance(stack.embedding, PatchSpec)
    return replace(stack, embedding=replace(stack.embedding, tokens=0, bias=True, norm=None))


def pool(images: SignalStackSpec) -> AttentionPoolSpec:
    """The attention pooling of an image, with the sizes of its layers."""
    (block,) = images.blocks
    assert isinstance(block.feed_forward, FeedForwardSpec)
    return AttentionPoolSpec(block.dense, block.norm, block.feed_forward)


def table(spec: DualEncoderSpec | EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    if isinstance(spec, EncoderSpec):
        image_rules = clip.vision_rules("encoder", "vision_model.") | {"head.*": "classifier.*"}
        image_rules["encoder.final_norm.*"] = "vision_model.post_layernorm.*"
        drop = ("text_model.*", "logit_*", "vision_model.head.*", "vision_model.embeddings.position_ids")
        return Table(image_rules, NAMING, drop)
    rules: Rules = clip.text_rules("text", "text_model.") | clip.vision_rules("vision", "vision_model.")
    rules |= pool_rules("vision_pool", "vision_model.head.")
    rules |= {
        "vision.final_norm.*": "vision_model.post_layernorm.*",
        "text_projection.*": "text_model.head.*",
        "similarity.scale": "logit_scale",
        "similarity.bias": "logit_bias",
    }
    return Table(rules, NAMING, drop=("*_model.embeddings.position_ids",))


def pool_rules(pool: str, prefix: str) -> Rules:
    """Tensor names of the attention pooling, by prefix; its query, key and value are one tensor."""
    rules: Rules = {
        f"{pool}.probe.weight": Take(f"{prefix}probe", leading_axis=True),
        f"{pool}.attention.o.*": f"{prefix}attention.out_proj.*",
        f"{pool}.norm.*": f"{prefix}layernorm.*",
        f"{pool}.feed_forward.up.*": f"{prefix}mlp.fc1.*",
        f"{pool}.feed_forward.down.*": f"{prefix}mlp.fc2.*",
    }
    for part, name in enumerate(("attention.q", "key_value.k", "key_value.v")):
        rules[f"{pool}.{name}.*"] = Take(f"{prefix}attention.in_proj_*", part=part, parts=3)
    return rules
