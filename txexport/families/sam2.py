"""SAM 2 of images (Ravi et al. 2024): Hiera, and SAM's decoder of masks over finer maps."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, SpecError, UnsupportedError
from txexport.families import sam
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    Activation,
    BlockSpec,
    FeedForwardSpec,
    GridAttentionSpec,
    MapNeckSpec,
    MaskDecoderSpec,
    NormPlacement,
    NormSpec,
    PatchGridSpec,
    PromptableSpec,
    QueryPoolingSpec,
    StabilitySpec,
    StagedStackSpec,
    StageSpec,
    TwoWaySpec,
    WindowedPositionsSpec,
)

TASKS = {"mask-generation": ("Sam2Model",)}
NAMING = Naming()
REFUSED = {
    "Sam2VisionModel": "it returns maps alone; expected Sam2Model",
    "Sam2HieraDetModel": "it returns maps alone; expected Sam2Model",
}

EPS = 1e-6
BACKBONE = {
    "image_size": [1024, 1024],
    "patch_kernel_size": [7, 7],
    "patch_stride": [4, 4],
    "patch_padding": [3, 3],
    "query_stride": [2, 2],
    "window_positional_embedding_background_size": [7, 7],
    "blocks_per_stage": [1, 2, 7, 2],
    "embed_dim_per_stage": [96, 192, 384, 768],
    "num_attention_heads_per_stage": [1, 2, 4, 8],
    "window_size_per_stage": [8, 4, 14, 7],
    "global_attention_blocks": [5, 7, 9],
}
VISION = {
    "backbone_channel_list": [768, 384, 192, 96],
    "backbone_feature_sizes": [[256, 256], [128, 128], [64, 64]],
    "fpn_top_down_levels": [2, 3],
    "fpn_kernel_size": 1,
    "fpn_stride": 1,
    "fpn_padding": 0,
    "num_feature_levels": 3,
}
# Of the model of videos, whose encoder and decoder are those of images: memories of other images.
OF_VIDEOS = (
    "memory_attention.*",
    "memory_encoder.*",
    "memory_temporal_positional_encoding",
    "mask_downsample.*",
    "object_pointer_proj.*",
    "temporal_positional_encoding_projection_layer.*",
    "no_memory_positional_encoding",
    "no_object_pointer",
    "occlusion_spatial_embedding_parameter",
)


def spec(config: Config, task: str, names: TensorNames) -> PromptableSpec:
    """The architecture that config.json describes."""
    try:
        return _promptable(config)
    except SpecError as error:
        raise UnsupportedError(f"{config.path}: {error}") from None


def _promptable(config: Config) -> PromptableSpec:
    """The architecture. Raises SpecError where its parts contradict each other."""
    vision = config.table("vision_config").with_defaults(**VISION)
    prompts = config.table("prompt_encoder_config").with_defaults(image_size=1024, patch_size=16)
    side, patch = prompts.integer("image_size"), prompts.integer("patch_size")
    size, levels = vision.integer("fpn_hidden_size", 256), (side // 4, side // 8, side // 16)
    prompts.expect(patch_size=16, hidden_size=size, num_point_embeddings=4)
    if side % patch:
        raise UnsupportedError(f"{prompts.path}: image_size is {side}, expected a multiple of {patch}")
    vision.expect(
        fpn_kernel_size=1,
        fpn_stride=1,
        fpn_padding=0,
        num_feature_levels=3,
        backbone_feature_sizes=[[level, level] for level in levels],
    )
    stages = _stages(vision.table("backbone_config").with_defaults(**BACKBONE), side)
    widths = tuple(stage.hidden_size for stage in stages.stages)
    vision.expect(backbone_channel_list=list(widths[::-1]))
    top_down = sam.layers_of(vision, "fpn_top_down_levels")
    finer = tuple(level for level in sorted({*top_down}) if level != len(widths) - 1)  # the coarsest
    return PromptableSpec(
        vision=stages,
        neck=MapNeckSpec(widths, size, finer),
        decoder=_decoder(config.table("mask_decoder_config").with_defaults(**sam.DECODER)),
        frequencies=size // 2,
        mask_prompt=sam.mask_prompt(prompts),
    )


def _stages(config: Config, side: int) -> StagedStackSpec:
    """Hiera: stages of layers over windows, with a layer between two whose queries are pooled."""
    lists = {name: config.integers(name) for name in BACKBONE if name.endswith("per_stage")}
    counts, widths, heads, windows = lists.values()
    if len({len(values) for values in lists.values()}) > 1:
        lengths = ", ".join(f"{name} {shortened(values)}" for name, values in lists.items())
        raise CheckpointError(f"{config.path}: {lengths}; expected as many numbers each")
    last = len(counts) - 1
    config.expect(patch_stride=[4, 4], query_stride=[2, 2], num_query_pool_stages=last, hidden_size=widths[0])
    kernel = config.integers("patch_kernel_size")
    config.expect(patch_kernel_size=kernel[:1] * 2, patch_padding=[kernel[0] // 2] * 2)
    if kernel[0] % 2 == 0 or kernel[0] < 4:
        raise UnsupportedError(f"{config.path}: patch_kernel_size is {kernel}, expected odd numbers from 5")
    rows, columns = config.integers("window_positional_embedding_background_size")
    patches = PatchGridSpec(
        widths[0],
        (side, side),
        4,
        None,
        config.integer("num_channels", 3),
        positioned=True,
        kernel=kernel[0],
        fixed=True,
        windowed=WindowedPositionsSpec(rows, columns, windows[0]),
    )
    everywhere, stages, layer = sam.layers_of(config, "global_attention_blocks"), [], 0
    for number, count in enumerate(counts):
        first = layer + (number > 0)  # the first layer of a later stage makes the grid smaller
        merging = None
        if number < last:
            merging = _pooling(config, widths[number : number + 2], heads[number + 1], windows[number])
        if number and (count < 2 or layer in everywhere):
            raise UnsupportedError(
                f"{config.path}: stage {number} has {count} layers, and attention everywhere in layers "
                f"{shortened(everywhere)}; expected 2 layers or more, the first with windows"
            )
        blocks = tuple(
            _block(
                config,
                widths[number],
                heads[number],
                0 if one in everywhere else windows[number],
                side // 4 // 2**number,
            )
            for one in range(first, layer + count)
        )
        stages.append(StageSpec(blocks, len(blocks), merging))
        layer += count
    return StagedStackSpec(patches, tuple(stages))


def _block(config: Config, width: int, heads: int, window: int, side: int) -> BlockSpec:
    """A layer over windows, or over all rows and columns, `side` each, where `window` is 0."""
    size = window or side
    attention = GridAttentionSpec(
        width, heads, config.head_dim(width, heads), size, size, window > 0, relative=False
    )
    return BlockSpec(attention, _network(config, width), _norm(config, width), NormPlacement.PRE)


def _pooling(config: Config, widths: list[int], heads: int, window: int) -> QueryPoolingSpec:
    """The first layer of a stage, over the windows of the stage before."""
    width, size = widths
    return QueryPoolingSpec(
        heads, config.head_dim(size, heads), window, _norm(config, width), _network(config, size)
    )


def _network(config: Config, width: int) -> FeedForwardSpec:
    """The feed-forward network of a layer."""
    inner = int(width * config.number("mlp_ratio", 4.0))
    return FeedForwardSpec(width, inner, config.activation("hidden_act", "gelu"))


def _norm(config: Config, width: int) -> NormSpec:
    """A norm of the encoder."""
    return NormSpec(width, config.number("layer_norm_eps", EPS))


def _decoder(config: Config) -> MaskDecoderSpec:
    """The decoder of masks; its networks have as many matrices as it has layers, two."""
    config.expect(num_hidden_layers=2)
    width, norm = config.integer("hidden_size"), NormSpec(config.integer("hidden_size"), 1e-5)
    layers = TwoWaySpec(
        width,
        config.integer("num_attention_heads"),
        config.count("num_hidden_layers"),
        config.integer("mlp_dim"),
        Activation.RELU,  # hidden_act is not read
        norm,
        norm,
        config.integer("attention_downsample_rate", 2),
    )
    stability = StabilitySpec(
        config.number("dynamic_multimask_stability_delta", 0.05),
        config.number("dynamic_multimask_stability_thresh", 0.98),
    )
    return MaskDecoderSpec(
        layers,
        config.integer("num_multimask_outputs", 3) + 1,
        NormSpec(width // 4, EPS),
        config.integer("iou_head_depth", 3),
        config.integer("iou_head_hidden_dim", 256),
        object_score=True,
        stability=stability if config.flag("dynamic_multimask_via_stability", True) else None,
    )


def table(spec: PromptableSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    backbone, neck, last = "vision_encoder.backbone", "vision_encoder.neck", len(spec.vision.stages) - 1
    rules: Rules = {
        "vision.embedding.project.*": f"{backbone}.patch_embed.projection.*",
        "vision.embedding.position.background.weight": Take(f"{backbone}.pos_embed", leading_axis=True),
        "vision.embedding.position.window.weight": Take(f"{backbone}.pos_embed_window", leading_axis=True),
        "neck.no_memory.weight": Take("no_memory_embedding", leading_axis=True),
        "neck.narrow.0.*": "mask_decoder.conv_s0.*",
        "neck.narrow.1.*": "mask_decoder.conv_s1.*",
        "frequencies.weight": Take(
            "shared_image_embedding.positional_embedding",
            also=("prompt_encoder.shared_embedding.positional_embedding",),
        ),
        **sam.MASK_PROMPT,
        "prompts.none.weight": "prompt_encoder.not_a_point_embed.weight",
        "decoder.no_mask.weight": "prompt_encoder.no_mask_embed.weight",
        "decoder.object_token.weight": "mask_decoder.obj_score_token.weight",
    }
    for level in range(last + 1):
        rules[f"neck.projects.{level}.*"] = f"{neck}.convs.{last - level}.*"
    for label in range(4):
        rules[f"prompts.labels.{label}.weight"] = Take(
            "prompt_encoder.point_embed.weight", part=label, parts=4
        )
    block = layer = 0
    for number, stage in enumerate(spec.vision.stages):
        for _ in range(stage.num_layers):
            rules |= _layer_rules(f"vision.layers.{layer}", f"{backbone}.blocks.{block}")
            block, layer = block + 1, layer + 1
        if stage.merging is not None:
            ours, theirs = f"vision.mergings.{number}", f"{backbone}.blocks.{block}"
            rules |= _layer_rules(ours, theirs) | {f"{ours}.project.*": f"{theirs}.proj.*"}
            block += 1
    return Table(rules | _decoder_rules(spec.decoder), NAMING, OF_VIDEOS)


def _layer_rules(layer: str, source: str) -> Rules:
    """One layer of the encoder, whose query, key and value are one matrix."""
    rules: Rules = {
        f"{layer}.attention.{name}.*": Take(f"{source}.attn.qkv.*", part=part, parts=3)
        for part, name in enumerate("qkv")
    }
    return rules | {
        f"{layer}.attention.o.*": f"{source}.attn.proj.*",
        f"{layer}.attention_norm.*": f"{source}.layer_norm1.*",
        f"{layer}.feed_forward.up.*": f"{source}.mlp.proj_in.*",
        f"{layer}.feed_forward.down.*": f"{source}.mlp.proj_out.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layer_norm2.*",
    }


def _decoder_rules(spec: MaskDecoderSpec) -> Rules:
    """SAM's decoder, where the projections have other names, and the network of the object's score."""
    sources = {"out_proj": "o_proj", "mlp.lin1": "mlp.proj_in", "mlp.lin2": "mlp.proj_out"}
    rules: Rules = {}
    for ours, theirs in sam.decoder_rules(spec).items():
        assert isinstance(theirs, str)
        for old, new in sources.items():
            theirs = theirs.replace(f".{old}.", f".{new}.")
        rules[ours] = theirs
    for layer, name in enumerate(("proj_in", "layers.0", "proj_out")):
        rules[f"decoder.object.{layer}.*"] = f"mask_decoder.pred_obj_score_head.{name}.*"
    return rules
