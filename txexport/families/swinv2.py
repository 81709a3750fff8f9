"""Swin v2 (Liu et al. 2022): Swin with norms after the sublayers, cosine attention and continuous biases."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import CheckpointError
from txexport.families import swin
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BlockSpec,
    CosineSpec,
    EncoderSpec,
    FeedForwardSpec,
    MergingSpec,
    NormPlacement,
    NormSpec,
    StagedStackSpec,
    StageSpec,
    WindowAttentionSpec,
)

TASKS = {
    "image-feature-extraction": ("Swinv2Model",),
    "image-classification": ("Swinv2ForImageClassification",),
}

NAMING = Naming("swinv2.")
REFUSED = {"Swinv2ForMaskedImageModeling": "it restores masked pixels; export its encoder as Swinv2Model"}
ALIASES = swin.ALIASES

HIDDEN = -200.0  # the original adds its -100 twice


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes.

    The original sizes windows and shifts for images of image_size, and keeps them for all others.
    """
    config.expect(use_absolute_embeddings=False)  # of one position too many, which the original cannot add
    patches = swin.patch_grid(config)
    height, width = patches.image_size
    side = patches.patch_size
    grid = height // side, width // side
    norm = NormSpec(swin.last_width(config), config.number("layer_norm_eps", swin.EPS))
    stack = StagedStackSpec(patches, stages(config, grid), final_norm=norm)
    return swin.under_head(config, task, stack)


def stages(config: Config, grid: tuple[int, int]) -> tuple[StageSpec, ...]:
    """The stages, over the grid of an image of image_size, halved and rounded down between two stages."""
    counts = swin.depths(config)
    heads = config.with_defaults(num_heads=swin.HEADS).each("num_heads", len(counts), swin.HEADS[0])
    trained = trained_windows(config, len(counts))
    result = []
    for number, (count, several) in enumerate(zip(counts, heads, strict=True)):
        width = config.integer("embed_dim", 96) * 2**number
        rows, columns = grid[0] // 2**number, grid[1] // 2**number
        window = min(rows, config.integer("window_size", 7))
        if min(rows, columns) < 1:
            raise CheckpointError(
                f"{config.path}: 'image_size' is {shortened(config.values.get('image_size'))}, which leaves "
                f"stage {number} a grid of {rows} by {columns}; expected a larger image_size"
            )
        shift = 0 if rows <= window else config.integer("window_size", 7) // 2
        attention = [
            window_attention(config, (width, several), window, by, trained[number])
            for by in (0, shift)[:count]
        ]
        blocks = tuple(block(config, kind) for kind in dict.fromkeys(attention))
        last = number == len(counts) - 1
        merging = (
            None if last else MergingSpec(width, 2 * width, NormSpec(2 * width, swin.EPS), norm_last=True)
        )
        result.append(StageSpec(blocks, count, merging))
    return tuple(result)


def trained_windows(config: Config, count: int) -> list[int]:
    """The windows in pretraining of every stage; 0 is the stage's own."""
    windows = config.each("pretrained_window_sizes", count, 0)
    if min(windows) < 0 or 1 in windows:
        raise CheckpointError(
            f"{config.path}: 'pretrained_window_sizes' is {shortened(windows)}, expected 0, or 2 and more"
        )
    return windows


def window_attention(
    config: Config, widths: tuple[int, int], window: int, shift: int, trained: int
) -> WindowAttentionSpec:
    """Attention of a stage of `widths`, the width and the number of heads."""
    width, heads = widths
    return WindowAttentionSpec(
        width,
        heads,
        config.head_dim(width, heads),
        window,
        shift,
        always_shifted=True,
        hidden=HIDDEN,
        bias=config.flag("qkv_bias", True),
        cosine=CosineSpec(trained_window=trained or None),
    )


def block(config: Config, attention: WindowAttentionSpec) -> BlockSpec:
    """One layer of a stage."""
    width = attention.hidden_size
    inner = int(config.number("mlp_ratio", 4.0) * width)
    feed_forward = FeedForwardSpec(width, inner, config.activation("hidden_act", "gelu"))
    norm = NormSpec(width, config.number("layer_norm_eps", swin.EPS))
    return BlockSpec(attention, feed_forward, norm, NormPlacement.RES_POST)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    assert isinstance(spec.encoder, StagedStackSpec)
    rules: Rules = {}
    for name, source in (swin.stack_rules(spec.encoder) | {"head.*": "classifier.*"}).items():
        layer, biased, _ = name.partition(".attention.relative.weight")
        if not biased:
            rules[name] = source
            continue
        attention = str(source).removesuffix(".relative_position_bias_table")
        rules |= {
            f"{layer}.attention.scale": f"{attention}.logit_scale",
            f"{layer}.attention.relative.up.*": f"{attention}.continuous_position_bias_mlp.0.*",
            f"{layer}.attention.relative.down.*": f"{attention}.continuous_position_bias_mlp.2.*",
        }
    drop = ("embeddings.mask_token", "classifier.*", "decoder.*", "*.attn_mask", "*.relative_*")
    return Table(rules, NAMING, drop)
