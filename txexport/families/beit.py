"""BEiT (Bao et al. 2022): a ViT whose attention has biases of distances."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import vit
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PatchBiasAttentionSpec,
    PatchSpec,
    Pick,
    SignalStackSpec,
    VectorSpec,
)

TASKS = {
    "image-feature-extraction": ("BeitModel",),
    "image-classification": ("BeitForImageClassification",),
}
NAMING = Naming("beit.")
REFUSED = {
    "BeitForMaskedImageModeling": "it restores masked patches; export its encoder as BeitModel",
    "BeitForSemanticSegmentation": "its head of pyramids is not supported",
}
SHARED, OWN = "use_shared_relative_position_bias", "use_relative_position_bias"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    width = config.integer("hidden_size", 768)
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-12))
    pooled = config.flag("use_mean_pooling", True)
    layers = config.with_defaults(num_hidden_layers=12).count("num_hidden_layers")
    stack = SignalStackSpec(
        patches(config, width), (block(config, width, norm),), layers, final_norm=None if pooled else norm
    )
    pick, mean_norm, left_out = (Pick.GLOBAL_AVERAGE, norm, 1) if pooled else (Pick.FIRST, None, 0)
    if task == "image-feature-extraction":
        if pooled and "pooler.layernorm.weight" not in names:
            return EncoderSpec(encoder=stack)
        return EncoderSpec(encoder=stack, vector=VectorSpec(pick, norm=mean_norm, registers=left_out))
    head = HeadSpec(
        HeadKind.SEQUENCE,
        tied=False,
        bias=True,
        labels=config.labels(),
        pick=pick,
        norm=mean_norm,
        registers=left_out,
    )
    return EncoderSpec(encoder=stack, head=head)


def patches(config: Config, width: int) -> PatchSpec:
    """Images of one size as patches, with a table of positions or without."""
    size, side = vit.image_size(config), vit.patch_size(config)
    biased = config.flag(SHARED, False) or config.flag(OWN, False)
    if biased and (size[0] != size[1] or size[0] % side):
        raise UnsupportedError(
            f"{config.path}: image_size is {size[0]} x {size[1]}, patches are of {side}, and distances have "
            "biases; expected a square of whole patches: the original reshapes the table of others wrongly"
        )
    return PatchSpec(
        hidden_size=width,
        image_size=size,
        patch_size=side,
        channels=config.integer("num_channels", 3),
        positioned=config.flag("use_absolute_position_embeddings", False),
    )


def block(config: Config, width: int, norm: NormSpec) -> BlockSpec:
    """One layer."""
    heads, side = config.integer("num_attention_heads", 12), vit.patch_size(config)
    head_dim, (height, wide) = config.head_dim(width, heads), vit.image_size(config)
    shared, separate = config.flag(SHARED, False), config.flag(OWN, False)
    if shared == separate:
        raise UnsupportedError(
            f"{config.path}: {SHARED} and {OWN} are {str(separate).lower()}; expected one of them to be true"
        )
    attention = PatchBiasAttentionSpec(width, heads, head_dim, height // side, wide // side)
    inner = config.integer("intermediate_size", 3072)
    feed_forward = FeedForwardSpec(width, inner, config.activation("hidden_act", "gelu"))
    scaled = config.number("layer_scale_init_value", 0.1) > 0
    return BlockSpec(attention, feed_forward, norm, NormPlacement.PRE, layer_scale=scaled)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; layers may share one table of biases."""
    rules: Rules = {key: rule for key, rule in vit.stack_rules().items() if not key.startswith("pooler")}
    layer, source = "encoder.layers.{i}", "encoder.layer.{i}"
    bias = "relative_position_bias.relative_position_bias_table"
    rules |= {
        f"{layer}.attention_scale.weight": f"{source}.lambda_1",
        f"{layer}.feed_forward_scale.weight": f"{source}.lambda_2",
        f"{layer}.attention.relative.weight": Take(
            f"{source}.attention.attention.{bias}", also=(f"encoder.{bias}",)
        ),
        "vector.norm.*": "pooler.layernorm.*",
        "head.norm.*": "pooler.layernorm.*",
        "head.*": "classifier.*",
    }
    drop = ("embeddings.mask_token", "pooler.*", "classifier.*", "lm_head.*", "layernorm.*")
    return Table(rules, NAMING, (*drop, "*.relative_position_index"))
