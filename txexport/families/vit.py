"""ViT (Dosovitskiy et al. 2021): pre-norm encoder of image patches."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PatchSpec,
    SignalStackSpec,
)

TASKS = {
    "image-feature-extraction": ("ViTModel",),
    "image-classification": ("ViTForImageClassification",),
}

NAMING = Naming("vit.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    return image_spec(config, task, names, tokens=1)


def image_spec(
    config: Config, task: str, names: TensorNames, tokens: int, any_size: bool = False
) -> EncoderSpec:
    """ViT's architecture with that many prefix tokens; `any_size` interpolates positions."""
    config.expect(pooler_act="tanh")
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm, head_dim = NormSpec(width, config.number("layer_norm_eps", 1e-12)), config.head_dim(width, heads)
    bias = config.flag("qkv_bias", True)
    attention = AttentionSpec(
        hidden_size=width,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=head_dim,
        causal=False,
        bias=bias,
        unmasked=True,
    )
    activation = config.activation("hidden_act", "gelu")
    feed_forward = FeedForwardSpec(width, config.integer("intermediate_size"), activation)
    stack = SignalStackSpec(
        PatchSpec(
            hidden_size=width,
            image_size=image_size(config),
            patch_size=patch_size(config),
            channels=config.integer("num_channels", 3),
            tokens=tokens,
            any_size=any_size,
        ),
        (BlockSpec(attention, feed_forward, norm, NormPlacement.PRE),),
        config.count("num_hidden_layers"),
        final_norm=norm,
    )
    if task == "image-feature-extraction":
        return EncoderSpec(encoder=stack, pooler="pooler.dense.weight" in names)
    head = HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, labels=config.labels())
    return EncoderSpec(encoder=stack, head=head)


def image_size(config: Config) -> tuple[int, int]:
    """Height and width in pixels: one number, or both."""
    value = config.values.get("image_size", 224)
    height, width = value if isinstance(value, list) and len(value) == 2 else (value, value)
    if type(height) is not int or type(width) is not int:
        raise UnsupportedError(
            f"{config.path}: image_size is {shortened(value)}, expected one number of pixels or two"
        )
    return height, width


def patch_size(config: Config) -> int:
    """The side of a patch in pixels."""
    value = config.values.get("patch_size", 16)
    sides = value if isinstance(value, list) else [value, value]
    if any(type(side) is not int for side in sides) or len(set(sides)) != 1:
        raise UnsupportedError(
            f"{config.path}: patch_size {shortened(value)} is not supported; expected squares"
        )
    return sides[0]


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    drop = ("embeddings.mask_token", "pooler.*", "classifier.*", "decoder.*")
    return Table(stack_rules() | {"head.*": "classifier.*"}, NAMING, drop)


def stack_rules() -> Rules:
    """The encoder and the pooler."""
    layer, source = "encoder.layers.{i}", "encoder.layer.{i}"
    return {
        "encoder.embedding.tokens.0.weight": Take("embeddings.cls_token", leading_axis=True),
        "encoder.embedding.position.weight": Take("embeddings.position_embeddings", leading_axis=True),
        "encoder.embedding.project.*": "embeddings.patch_embeddings.projection.*",
        f"{layer}.attention.q.*": f"{source}.attention.attention.query.*",
        f"{layer}.attention.k.*": f"{source}.attention.attention.key.*",
        f"{layer}.attention.v.*": f"{source}.attention.attention.value.*",
        f"{layer}.attention.o.*": f"{source}.attention.output.dense.*",
        f"{layer}.attention_norm.*": f"{source}.layernorm_before.*",
        f"{layer}.feed_forward.up.*": f"{source}.intermediate.dense.*",
        f"{layer}.feed_forward.down.*": f"{source}.output.dense.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layernorm_after.*",
        "encoder.final_norm.*": "layernorm.*",
        "pooler.dense.*": "pooler.dense.*",
    }
