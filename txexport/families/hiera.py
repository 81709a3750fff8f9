"""Hiera (Ryali et al. 2023): stages of attention within windows, then over all of a grid."""

from itertools import pairwise

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, SpecError, UnsupportedError
from txexport.families import vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BlockSpec,
    EncoderSpec,
    FeedForwardSpec,
    GridAttentionSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PatchGridSpec,
    Pick,
    QueryPoolingSpec,
    StagedStackSpec,
    StageSpec,
    VectorSpec,
)

TASKS = {
    "image-feature-extraction": ("HieraModel",),
    "image-classification": ("HieraForImageClassification",),
}
NAMING = Naming("hiera.")
REFUSED = {
    "HieraForPreTraining": "it restores masked pixels; export its encoder as HieraModel",
    "HieraBackbone": "it returns maps for another model; expected HieraModel",
}
ALIASES = {"num_hidden_layers": "num_layers"}
ARGUMENTS = {"interpolate_pos_encoding": True}  # of the original, for images of any size

DEFAULTS = {
    "image_size": [224, 224],
    "patch_size": [7, 7],
    "patch_stride": [4, 4],
    "depths": [2, 3, 16, 3],
    "num_heads": [1, 2, 4, 8],
    "masked_unit_attention": [True, True, False, False],
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    try:
        return _encoder(config.with_defaults(**DEFAULTS), task)
    except SpecError as error:
        raise UnsupportedError(f"{config.path}: {error}") from None


def _encoder(config: Config, task: str) -> EncoderSpec:
    """The architecture. Raises SpecError where its parts contradict each other."""
    stack, pick = _stages(config), Pick.GLOBAL_AVERAGE
    norm = _norm(config, stack.hidden_size)
    if task == "image-feature-extraction":
        return EncoderSpec(encoder=stack, vector=VectorSpec(pick, norm=norm))
    labels = config.labels()
    head = HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, norm=norm, labels=labels, pick=pick)
    return EncoderSpec(encoder=stack, head=head)


def _stages(config: Config) -> StagedStackSpec:
    """The stages; a window is what becomes one vector of the last of them."""
    counts, heads = config.integers("depths"), config.integers("num_heads")
    last, within = len(counts) - 1, config.values["masked_unit_attention"]
    flags = isinstance(within, list) and all(isinstance(one, bool) for one in within)
    if not flags or not len(counts) == len(heads) == len(within) or sum(counts) > config.room.count:
        raise CheckpointError(
            f"{config.path}: depths {shortened(counts)}, num_heads {shortened(heads)} and "
            f"masked_unit_attention {shortened(within)}; expected as many of each, and as many layers as "
            "there are tensors for"
        )
    if min(counts[1:], default=2) < 2 or last > 7:
        raise UnsupportedError(
            f"{config.path}: depths {shortened(counts)} is not supported; expected 2 layers or more in each "
            "of up to 8 stages but the first"
        )
    unit, width = 2**last, config.integer("embed_dim", 96)
    config = config.with_defaults(num_query_pool=3, query_stride=[2, 2], masked_unit_size=[8, 8])
    config.expect(num_query_pool=last, query_stride=[2, 2], masked_unit_size=[unit, unit])
    patches = _patches(config, width, unit)
    widths = [int(width * config.number("embed_dim_multiplier", 2.0) ** number) for number in range(last + 1)]
    if any(wide <= narrow for narrow, wide in pairwise(widths)):
        raise UnsupportedError(
            f"{config.path}: stages of {widths} numbers are not supported; expected ever more"
        )
    stages = []
    for number, (count, size) in enumerate(zip(counts, widths, strict=True)):
        side = patches.grid[0] // 2**number
        merging = None
        if number < last:
            local = within[number] or within[number + 1]
            merging = QueryPoolingSpec(
                heads[number + 1],
                config.head_dim(widths[number + 1], heads[number + 1]),
                unit // 2**number if local else side,
                _norm(config, size),
                _network(config, widths[number + 1]),
                everywhere=not local,
            )
        rows = unit // 2**number if within[number] else side
        attention = GridAttentionSpec(
            size, heads[number], config.head_dim(size, heads[number]), rows, rows, within[number], False
        )
        block = BlockSpec(attention, _network(config, size), _norm(config, size), NormPlacement.PRE)
        stages.append(StageSpec((block,), count - (number > 0), merging))
    return StagedStackSpec(patches, tuple(stages))


def _patches(config: Config, width: int, unit: int) -> PatchGridSpec:
    """Overlapping patches; positions are interpolated for other sizes than image_size."""
    kernel, (stride, *_) = config.integers("patch_size"), config.integers("patch_stride")
    config = config.with_defaults(patch_padding=[3, 3])
    config.expect(
        patch_size=kernel[:1] * 2, patch_stride=[stride, stride], patch_padding=[kernel[0] // 2] * 2
    )
    size = vit.image_size(config)
    if size[0] != size[1] or size[0] % (stride * unit) or kernel[0] % 2 == 0:
        raise UnsupportedError(
            f"{config.path}: image_size {shortened(config.values['image_size'])} with patches of {kernel[0]} "
            f"is not supported; expected squares of a multiple of {stride * unit}, and odd patches"
        )
    channels = config.integer("num_channels", 3)
    return PatchGridSpec(
        width, size, stride, None, channels, positioned=True, kernel=kernel[0], multiple=stride * unit
    )


def _network(config: Config, width: int) -> FeedForwardSpec:
    """The feed-forward network of a layer."""
    inner = int(width * config.number("mlp_ratio", 4.0))
    return FeedForwardSpec(width, inner, config.activation("hidden_act", "gelu"))


def _norm(config: Config, width: int) -> NormSpec:
    """A norm."""
    return NormSpec(width, config.number("layer_norm_eps", 1e-6))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers, whose stages begin with the layer that pools."""
    assert isinstance(spec.encoder, StagedStackSpec)
    rules: Rules = {
        "encoder.embedding.project.*": "embeddings.patch_embeddings.projection.*",
        "encoder.embedding.position.weight": Take("embeddings.position_embeddings", leading_axis=True),
        "vector.norm.*": "pooler.layernorm.*",
        "head.norm.*": "pooler.layernorm.*",
        "head.*": "classifier.*",
    }
    layer = 0
    for number, stage in enumerate(spec.encoder.stages):
        if stage.merging is not None:
            ours, theirs = f"encoder.mergings.{number}", f"encoder.stages.{number + 1}.layers.0"
            rules |= _layer_rules(ours, theirs) | {f"{ours}.project.*": f"{theirs}.proj.*"}
        for block in range(stage.num_layers):
            theirs = f"encoder.stages.{number}.layers.{block + (number > 0)}"
            rules |= _layer_rules(f"encoder.layers.{layer}", theirs)
            layer += 1
    return Table(rules, NAMING, ("classifier.*", "decoder.*", "multiscale_fusion.*"))


def _layer_rules(layer: str, source: str) -> Rules:
    """One layer, whose query, key and value are one matrix."""
    rules: Rules = {
        f"{layer}.attention.{name}.*": Take(f"{source}.attn.qkv.*", part=part, parts=3)
        for part, name in enumerate("qkv")
    }
    return rules | {
        f"{layer}.attention.o.*": f"{source}.attn.proj.*",
        f"{layer}.attention_norm.*": f"{source}.layernorm_before.*",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layernorm_after.*",
    }
