"""BEiT (Bao et al. 2022): a ViT whose attention has biases of distances; labels of pixels by a pyramid."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BatchNormSpec,
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
    PyramidSpec,
    SignalStackSpec,
    VectorSpec,
)

TASKS = {
    "image-feature-extraction": ("BeitModel",),
    "image-classification": ("BeitForImageClassification",),
    "image-segmentation": ("BeitForSemanticSegmentation",),
}
NAMING = Naming("beit.")
REFUSED = {
    "BeitForMaskedImageModeling": "it restores masked patches; export its encoder as BeitModel",
}
BATCH_EPS = 1e-5  # of the batch norms of a pyramid, which config.json does not name
MOST_LAYERS = 100
SHARED, OWN = "use_shared_relative_position_bias", "use_relative_position_bias"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    width = config.integer("hidden_size", 768)
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-12))
    pooled = config.flag("use_mean_pooling", True)
    layers = config.with_defaults(num_hidden_layers=12).count("num_hidden_layers")
    if task == "image-segmentation":
        read = _pyramid(config, width, layers)
        stack = SignalStackSpec(patches(config, width), (block(config, width, norm),), read.layers[-1])
        segments = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=config.labels(), segments=read)
        return EncoderSpec(encoder=stack, head=segments)
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


def _pyramid(config: Config, width: int, count: int) -> PyramidSpec:
    """The pyramid over four of `count` layers; out_indices counts from the input of the first one, as 1."""
    values = config.values.get("out_indices", config.values.get("segmentation_indices"))
    if not isinstance(values, list) or len(values) != 4 or not all(type(one) is int for one in values):
        raise CheckpointError(
            f"{config.path}: out_indices is {shortened(values)}, expected four layers, as the original"
        )
    layers = tuple(value - 1 for value in values)
    if list(layers) != sorted(set(layers)) or layers[0] < 0 or not 0 < layers[-1] <= count:
        raise UnsupportedError(
            f"{config.path}: out_indices {shortened(values)} of {count} layers are not supported; expected "
            f"rising ones from 1, of at most {count + 1}"
        )
    high, wide = (side // vit.patch_size(config) for side in vit.image_size(config))
    if min(high, wide) < 2:
        raise UnsupportedError(f"{config.path}: {high} by {wide} patches; a pyramid needs 2 by 2 or more")
    scales = config.with_defaults(pool_scales=[1, 2, 3, 6]).integers("pool_scales")
    norm = BatchNormSpec(width, BATCH_EPS)
    return PyramidSpec(layers, tuple(scales), norm, vit.patch_size(config))


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
    drop = ["embeddings.mask_token", "pooler.*", "classifier.*", "lm_head.*", "layernorm.*"]
    drop += ["*.relative_position_index"]
    if isinstance(spec.head.segments, PyramidSpec):
        drop += [f"encoder.layer.{layer}.*" for layer in range(spec.encoder.num_layers, MOST_LAYERS)]
        drop += ["auxiliary_head.*", "*.num_batches_tracked"]
        rules |= pyramid_rules(spec.head.segments, PUBLISHED)
    return Table(rules, NAMING, tuple(drop))


# Names of the parts of a pyramid's head: a pooled map, the convolution of all of them, and those of a part.
PUBLISHED = ("psp_modules.{0}.1", "bottleneck", "conv", "bn")


def pyramid_rules(pyramid: PyramidSpec, named: tuple[str, str, str, str]) -> Rules:
    """The maps of four layers and the head over them; `named` as PUBLISHED."""
    pool, bottleneck, convolution, norm = named
    ours, head = "head.pyramid", "decode_head"
    parts = {f"{ours}.pools.{n}": f"{head}.{pool.format(n)}" for n in range(len(pyramid.scales))}
    parts |= {f"{ours}.pooled": f"{head}.{bottleneck}", f"{ours}.joint": f"{head}.fpn_bottleneck"}
    for level in range(len(pyramid.layers) - 1):
        parts[f"{ours}.laterals.{level}"] = f"{head}.lateral_convs.{level}"
        parts[f"{ours}.outputs.{level}"] = f"{head}.fpn_convs.{level}"
    rules: Rules = {f"{ours}.finest.first.*": "fpn1.0.*", f"{ours}.finest.second.*": "fpn1.3.*"}
    rules |= {f"{ours}.finer.*": "fpn2.0.*", "head.scores.*": f"{head}.classifier.*"}
    rules |= batch_norm_rules(f"{ours}.finest.norm", "fpn1.1")
    for part, source in parts.items():
        rules[f"{part}.convolution.weight"] = f"{source}.{convolution}.weight"
        rules |= batch_norm_rules(f"{part}.norm", f"{source}.{norm}")
    return rules


def batch_norm_rules(norm: str, source: str) -> Rules:
    """A batch norm."""
    return {
        f"{norm}.weight": f"{source}.weight",
        f"{norm}.bias": f"{source}.bias",
        f"{norm}.mean": f"{source}.running_mean",
        f"{norm}.variance": f"{source}.running_var",
    }
