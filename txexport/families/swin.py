"""Swin (Liu et al. 2021): attention within windows that are shifted in every other layer, in stages."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BlockSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    MergingSpec,
    NormPlacement,
    NormSpec,
    PatchGridSpec,
    Pick,
    StagedStackSpec,
    StageSpec,
    VectorSpec,
    WindowAttentionSpec,
)

TASKS = {
    "image-feature-extraction": ("SwinModel",),
    "image-classification": ("SwinForImageClassification",),
}

NAMING = Naming("swin.")
REFUSED = {"SwinForMaskedImageModeling": "it restores masked pixels; export its encoder as SwinModel"}
ALIASES = {"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers"}
ARGUMENTS = {"interpolate_pos_encoding": True}  # of the original, for images of any size

EPS = 1e-5  # of norms that read no layer_norm_eps: after the patches and between stages
DEPTHS, HEADS = [2, 2, 6, 2], [3, 6, 12, 24]


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    patches = patch_grid(config)
    stack = StagedStackSpec(
        patches, stages(config), final_norm=NormSpec(last_width(config), config.number("layer_norm_eps", EPS))
    )
    check_windows(config, stack)
    return under_head(config, task, stack)


def under_head(config: Config, task: str, stack: StagedStackSpec) -> EncoderSpec:
    """The mean of all vectors, beside hidden states or under a classifier."""
    if task == "image-feature-extraction":
        return EncoderSpec(encoder=stack, vector=VectorSpec(Pick.GLOBAL_AVERAGE))
    labels, pick = config.labels(), Pick.GLOBAL_AVERAGE
    head = HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, labels=labels, pick=pick, registers=0)
    return EncoderSpec(encoder=stack, head=head)


def patch_grid(config: Config) -> PatchGridSpec:
    """Images as grids of patches; positions need images of whole patches."""
    size, side = vit.image_size(config), vit.patch_size(config.with_defaults(patch_size=4))
    width = config.integer("embed_dim", 96)
    config.check_width("embed_dim", width)
    positioned = config.flag("use_absolute_embeddings", False)
    if positioned and (size[0] != size[1] or size[0] % side):
        raise UnsupportedError(
            f"{config.path}: image_size is {shortened(config.values.get('image_size'))} with "
            f"use_absolute_embeddings and patches of {side}; expected a square of whole patches: the "
            "original interpolates no others"
        )
    channels = config.integer("num_channels", 3)
    return PatchGridSpec(width, size, side, NormSpec(width, EPS), channels, positioned)


def last_width(config: Config) -> int:
    """The width of the last stage."""
    return config.integer("embed_dim", 96) * 2 ** (len(depths(config)) - 1)


def depths(config: Config) -> list[int]:
    """The number of layers of each stage."""
    value = config.values.get("depths") or DEPTHS
    numbers = value if isinstance(value, list) and value else [0]
    if any(type(number) is not int or number < 1 for number in numbers) or len(numbers) > 8:
        raise CheckpointError(
            f"{config.path}: 'depths' is {shortened(value)}, expected 1 to 8 numbers of layers"
        )
    if sum(numbers) > config.room.count:
        raise CheckpointError(
            f"{config.path}: 'depths' is {shortened(value)}, but there are tensors for at most "
            f"{config.room.count} layers"
        )
    return numbers


def stages(config: Config) -> tuple[StageSpec, ...]:
    """The stages: every other layer is shifted by half a window."""
    counts = depths(config)
    heads = config.with_defaults(num_heads=HEADS).each("num_heads", len(counts), HEADS[0])
    window = config.integer("window_size", 7)
    result = []
    for number, (count, several) in enumerate(zip(counts, heads, strict=True)):
        width = config.integer("embed_dim", 96) * 2**number
        shifts = [0, window // 2][:count]
        blocks = tuple(block(config, width, several, window, shift) for shift in shifts)
        last = number == len(counts) - 1
        merging = None if last else MergingSpec(width, 2 * width, NormSpec(4 * width, EPS))
        result.append(StageSpec(blocks, count, merging))
    return tuple(result)


def block(config: Config, width: int, heads: int, window: int, shift: int) -> BlockSpec:
    """One layer of a stage."""
    head_dim, bias = config.head_dim(width, heads), config.flag("qkv_bias", True)
    attention = WindowAttentionSpec(width, heads, head_dim, window, shift, bias=bias)
    inner = int(config.number("mlp_ratio", 4.0) * width)
    feed_forward = FeedForwardSpec(width, inner, config.activation("hidden_act", "gelu"))
    return BlockSpec(
        attention, feed_forward, NormSpec(width, config.number("layer_norm_eps", EPS)), NormPlacement.PRE
    )


def check_windows(config: Config, stack: StagedStackSpec) -> None:
    """Raise UnsupportedError where a stage has less than a window: the original's biases do not fit there."""
    window = config.integer("window_size", 7)
    for number, grid in enumerate(stack.grids(stack.embedding.grid)):
        if min(grid) < window:
            size = shortened(config.values.get("image_size", 224))
            raise UnsupportedError(
                f"{config.path}: images of image_size {size} have a grid of {grid[0]} by {grid[1]} in stage "
                f"{number}, less than window_size {window}, and the original fails on those; expected a "
                "larger image_size or a smaller window_size"
            )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    assert isinstance(spec.encoder, StagedStackSpec)
    drop = ("embeddings.mask_token", "classifier.*", "decoder.*", "*.attn_mask")
    rules = stack_rules(spec.encoder) | {"head.*": "classifier.*"}
    return Table(rules, NAMING, (*drop, "*.relative_position_index"))


def stack_rules(stack: StagedStackSpec) -> Rules:
    """The embedding, every layer of every stage, the projections between stages, and the final norm."""
    rules: Rules = {
        "encoder.embedding.project.*": "embeddings.patch_embeddings.projection.*",
        "encoder.embedding.norm.*": "embeddings.norm.*",
        "encoder.embedding.position.weight": Take("embeddings.position_embeddings", leading_axis=True),
        "encoder.final_norm.*": "layernorm.*",
    }
    return rules | {ours: f"encoder.{theirs}" for ours, theirs in stage_rules(stack).items()}


def stage_rules(stack: StagedStackSpec) -> dict[str, str]:
    """Every layer of every stage, and the projections between stages, by their names within the encoder."""
    rules: dict[str, str] = {}
    layer = 0
    for number, stage in enumerate(stack.stages):
        source = f"layers.{number}"
        if stage.merging is not None:
            rules[f"encoder.mergings.{number}.norm.*"] = f"{source}.downsample.norm.*"
            rules[f"encoder.mergings.{number}.project.*"] = f"{source}.downsample.reduction.*"
        for block in range(stage.num_layers):
            rules |= layer_rules(f"encoder.layers.{layer}", f"{source}.blocks.{block}")
            layer += 1
    return rules


def layer_rules(layer: str, source: str) -> dict[str, str]:
    """One layer."""
    return {
        f"{layer}.attention.q.*": f"{source}.attention.self.query.*",
        f"{layer}.attention.k.*": f"{source}.attention.self.key.*",
        f"{layer}.attention.v.*": f"{source}.attention.self.value.*",
        f"{layer}.attention.o.*": f"{source}.attention.output.dense.*",
        f"{layer}.attention.relative.weight": f"{source}.attention.self.relative_position_bias_table",
        f"{layer}.attention_norm.*": f"{source}.layernorm_before.*",
        f"{layer}.feed_forward.up.*": f"{source}.intermediate.dense.*",
        f"{layer}.feed_forward.down.*": f"{source}.output.dense.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layernorm_after.*",
    }
