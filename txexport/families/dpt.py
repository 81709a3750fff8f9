"""DPT (Ranftl et al. 2021): depths or labels of pixels from a ViT's layers, each with its class token."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import beit, depth_anything, dinov2, vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BatchNormSpec,
    ClassReadout,
    DepthSpec,
    EncoderSpec,
    FeatureFusionSpec,
    FeatureMapSpec,
    FusedSegmentsSpec,
    HeadKind,
    HeadSpec,
    SignalStackSpec,
)

TASKS = {
    "depth-estimation": ("DPTForDepthEstimation",),
    "image-segmentation": ("DPTForSemanticSegmentation",),
}
NAMING = Naming("dpt.")
EPS = 1e-5  # of batch norms, which config.json does not name
NORMED, BIASED = "use_batch_norm_in_fusion_residual", "use_bias_in_fusion_residual"
PATCH = 16  # pixels that the maps and the head double to


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; over its own ViT, images are squares of one size."""
    config = config.with_defaults(image_size=384, reassemble_factors=depth_anything.FACTORS)
    config = config.with_defaults(neck_hidden_sizes=[96, 192, 384, 768], backbone_out_indices=[2, 5, 8, 11])
    _check_backbone(config)
    config.expect(head_in_index=-1)
    backbone = config.table("backbone_config")
    if backbone.values:
        if task != "depth-estimation":
            raise UnsupportedError(
                f"{config.path}: backbone_config is not supported for {task}; expected none"
            )
        return _over_dinov2(config, backbone, names)
    config.expect(add_projection=False)
    high, wide = vit.image_size(config)
    if vit.patch_size(config) != PATCH or high != wide or high % (2 * PATCH):
        raise UnsupportedError(
            f"{config.path}: images of {high} by {wide} pixels in patches of {vit.patch_size(config)} are "
            f"not supported; expected squares of an even number of patches of {PATCH}"
        )
    stack = vit.spec(config, "image-feature-extraction", names).encoder
    assert isinstance(stack, SignalStackSpec)
    maps = depth_anything.maps(config, _layers(config, stack.num_layers))
    fusion = _fusion(config, maps, PATCH)
    stack = replace(stack, final_norm=None)
    if task == "depth-estimation":
        depth = DepthSpec(fusion, head_size=32)
        return EncoderSpec(encoder=stack, head=HeadSpec(HeadKind.DEPTH, tied=False, depth=depth))
    segments = FusedSegmentsSpec(fusion, BatchNormSpec(fusion.size, EPS))
    head = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=config.labels(), segments=segments)
    return EncoderSpec(encoder=stack, head=head)


def _fusion(config: Config, maps: tuple[FeatureMapSpec, ...], side: int) -> FeatureFusionSpec:
    """The fusion of maps of patches of that side, each with what it takes of the class token."""
    readout = config.text("readout_type", "project")
    if readout not in list(ClassReadout):
        raise UnsupportedError(
            f"{config.path}: readout_type {shortened(readout)} is not supported; expected "
            f"{', '.join(ClassReadout)}"
        )
    activation = config.activation("hidden_act", "gelu")
    size, normed = config.integer("fusion_hidden_size", 256), config.flag(NORMED, False)
    norm = BatchNormSpec(size, EPS)
    return FeatureFusionSpec(
        maps=tuple(replace(one, readout=ClassReadout(readout), activation=activation) for one in maps),
        size=size,
        patch_size=side,
        norm=norm if normed else None,
        bias=not normed if config.values.get(BIASED) is None else config.flag(BIASED),
    )


def _check_backbone(config: Config) -> None:
    """Raise UnsupportedError where the encoder is another model, or has convolutions before it."""
    for key in ("is_hybrid", "backbone"):
        value = config.values.get(key)
        if value is not None and value is not False:
            raise UnsupportedError(
                f"{config.path}: {key}={shortened(value)} is not supported; expected none: DPT's own ViT"
            )


def _over_dinov2(config: Config, backbone: Config, names: TensorNames) -> EncoderSpec:
    """Depths from the states of a DINOv2, of images of any size; maps double from the coarsest on."""
    backbone = backbone.with_defaults(hidden_size=768, num_hidden_layers=12, num_attention_heads=12)
    backbone = backbone.with_defaults(reshape_hidden_states=True)
    backbone.expect(model_type="dinov2", reshape_hidden_states=False)
    normed = backbone.flag("apply_layernorm", True)
    unnormed = backbone.replaced(apply_layernorm=True)
    stack = dinov2.spec(unnormed, "image-feature-extraction", names).encoder
    assert isinstance(stack, SignalStackSpec)
    stack = stack if normed else replace(stack, final_norm=None)
    maps = depth_anything.maps(config, depth_anything.layers_of(backbone, stack.num_layers))
    fusion = replace(_fusion(config, maps, vit.patch_size(backbone)), doubling=True)
    depth = DepthSpec(fusion, head_size=32, projected=config.flag("add_projection", False))
    return EncoderSpec(encoder=stack, head=HeadSpec(HeadKind.DEPTH, tied=False, depth=depth))


def _layers(config: Config, count: int) -> list[int]:
    """The layers whose outputs are read: backbone_out_indices counts them from 0."""
    indices = config.values["backbone_out_indices"]
    if not isinstance(indices, list) or not all(
        type(index) is int and 0 <= index < count for index in indices
    ):
        raise CheckpointError(
            f"{config.path}: backbone_out_indices {shortened(indices)}; expected layers of {count}, from 0"
        )
    if indices != sorted(set(indices)) or indices[-1:] != [count - 1]:
        raise UnsupportedError(
            f"{config.path}: backbone_out_indices {shortened(indices)} of {count} layers are not supported; "
            "expected rising ones, the last layer among them"
        )
    return [index + 1 for index in indices]


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers: the ViT's, the neck's, the head's."""
    neck = spec.head.neck
    assert isinstance(neck, FeatureFusionSpec)
    base = depth_anything.backbone_rules(spec) if neck.doubling else vit.table(spec).rules
    rules: Rules = {key: rule for key, rule in base.items() if key.startswith("encoder.")}
    rules |= depth_anything.neck_rules(len(neck.maps), "neck")
    for number in range(len(neck.maps)):
        source = f"neck.reassemble_stage.readout_projects.{number}.0"
        rules[f"head.neck.maps.{number}.readout.*"] = f"{source}.*"
    if neck.norm is not None:
        rules |= _norms(len(neck.maps))
    unread = "neck.fusion_stage.layers.0.residual_layer1.*"  # of the coarsest map, which is added to none
    drop = (
        "layernorm.*",
        "backbone.layernorm.*",
        "backbone.embeddings.mask_token",
        "pooler.*",
        unread,
        "auxiliary_head.*",
        "*.num_batches_tracked",
    )
    if spec.head.kind == HeadKind.SEGMENTS:
        rules |= {"head.convolve.convolution.weight": "head.head.0.weight", "head.scores.*": "head.head.4.*"}
        return Table(rules | beit.batch_norm_rules("head.convolve.norm", "head.head.1"), NAMING, drop)
    for part, place in (("halve", 0), ("convolve", 2), ("project", 4)):
        rules[f"head.{part}.*"] = f"head.head.{place}.*"
    rules["head.projection.*"] = "head.projection.*"
    return Table(rules, NAMING, drop)


def _norms(count: int) -> Rules:
    """The batch norms of the fusions of `count` maps, of which the coarsest is stored first."""
    rules: Rules = {}
    for number in range(count):
        ours, theirs = f"head.neck.fusions.{number}", f"neck.fusion_stage.layers.{count - 1 - number}"
        for unit, layer in (("add", "residual_layer1"), ("refine", "residual_layer2")):
            for part, name in (("first", "batch_norm1"), ("second", "batch_norm2")):
                rules |= beit.batch_norm_rules(f"{ours}.{unit}.{part}_norm", f"{theirs}.{layer}.{name}")
    return rules
