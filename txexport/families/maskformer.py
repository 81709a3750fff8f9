"""MaskFormer (Cheng et al. 2021): queries that read the maps of Swin, and a mask of each."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import detr, swin
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    EncoderSpec,
    GroupNormSpec,
    HeadKind,
    HeadSpec,
    MapStackSpec,
    MasksSpec,
    NormSpec,
    PixelPyramidSpec,
    ResNetMapsSpec,
    StagedStackSpec,
    StageSpec,
    WindowAttentionSpec,
)
from txexport.spec.masks import MASK_LAYERS

TASKS = {"image-segmentation": ("MaskFormerForInstanceSegmentation",)}
NAMING = Naming()
REFUSED = {
    "MaskFormerModel": "its queries are no result of a task; expected MaskFormerForInstanceSegmentation"
}
ALIASES = {"hidden_size": "mask_feature_size"}

EPS = 1e-5  # of norms that read no epsilon
SIDES = (512, 672)  # of an image, in reports
STAGES = 4  # of the backbone
GROUPS = 32  # of the norms of maps
# A backbone whose values are not in config.json.
SWIN_BASE = {
    "depths": [2, 2, 18, 2],
    "image_size": 384,
    "embed_dim": 128,
    "num_heads": [4, 8, 16, 32],
    "window_size": 12,
}
BACKBONE = "model.pixel_level_module.encoder"
DECODER = "model.pixel_level_module.decoder"
QUERIES = "model.transformer_module"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(use_auxiliary_loss=False)
    network = config.table("backbone_config")
    stack: StagedStackSpec | MapStackSpec
    if network.values.get("model_type") == "resnet":
        stack = _resnet(config, network)
        sizes = stack.embedding.sizes
    else:
        stack = backbone(config, SWIN_BASE)
        sizes = tuple(stage.hidden_size for stage in stack.stages)
    masks = _masks(config, sizes)
    head = HeadSpec(HeadKind.MASKS, tied=False, bias=True, labels=config.labels() + 1, masks=masks)
    return EncoderSpec(encoder=stack, head=head)


def backbone(config: Config, otherwise: Mapping[str, Any]) -> StagedStackSpec:
    """Swin whose windows are always shifted, with norms of the maps.

    `otherwise` are its values where config.json has none.
    """
    network = config.table("backbone_config")
    network = network if network.values else network.with_defaults(**otherwise)
    if network.values.get("model_type") != "maskformer-swin":
        network = network.with_defaults(model_type="swin")
        network.expect(model_type="swin")
    network.expect(use_absolute_embeddings=False)
    stages = tuple(stage(one) for one in swin.stages(network))
    if len(stages) != STAGES:
        raise UnsupportedError(
            f"{config.path}: backbone_config has {len(stages)} stages; expected {STAGES}, whose maps are read"
        )
    return StagedStackSpec(swin.patch_grid(network), stages)


def _resnet(config: Config, network: Config) -> MapStackSpec:
    """A residual network, all of whose maps are read."""
    spec = detr.backbone(config, 1)
    features = [f"stage{number}" for number in range(1, len(spec.sizes) + 1)]
    if network.strings("out_features") != features:
        raise UnsupportedError(
            f"{config.path}: out_features of backbone_config is "
            f"{shortened(network.values.get('out_features'))}, expected {shortened(features)}"
        )
    embedding = ResNetMapsSpec(
        spec.depths, spec.sizes, spec.stem, spec.bottleneck, spec.eps, spec.channels, SIDES
    )
    return MapStackSpec(embedding)


def stage(stage: StageSpec) -> StageSpec:
    """A stage whose layers shift windows of a grid of any size."""
    blocks = []
    for block in stage.blocks:
        assert isinstance(block.attention, WindowAttentionSpec)
        blocks.append(replace(block, attention=replace(block.attention, always_shifted=True)))
    return replace(stage, blocks=tuple(blocks), map_norm=NormSpec(stage.hidden_size, EPS))


def _masks(config: Config, sizes: tuple[int, ...]) -> MasksSpec:
    """The pyramid over maps of `sizes` channels, and the layers of queries."""
    decoder = config.table("decoder_config").with_defaults(d_model=256)
    decoder.expect(model_type="detr", auxiliary_loss=False)
    width = decoder.integer("d_model")
    fused = config.integer("fpn_feature_size", 256)
    pyramid = PixelPyramidSpec(
        sizes, GroupNormSpec(fused, GROUPS, EPS), config.integer("mask_feature_size", 256)
    )
    return MasksSpec(
        pyramid,
        detr.layers(decoder, "decoder"),
        decoder.integer("num_queries", 100),
        decoder.activation("activation_function", "relu"),
        NormSpec(width, EPS),
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    assert spec.head.masks is not None
    if isinstance(spec.encoder, MapStackSpec):
        assert isinstance(spec.encoder.embedding, ResNetMapsSpec)
        rules = detr.backbone_rules(spec.encoder.embedding.network, BACKBONE) | head_rules(spec.head.masks)
        return Table(rules, NAMING, ("*.num_batches_tracked", "criterion.*"))
    assert isinstance(spec.encoder, StagedStackSpec)
    rules = {
        ours: f"{BACKBONE}.model.{theirs}"
        for ours, theirs in swin.stack_rules(spec.encoder).items()
        if isinstance(theirs, str)
    }
    for number in range(len(spec.encoder.stages)):
        rules[f"encoder.map_norms.{number}.*"] = f"{BACKBONE}.hidden_states_norms.{number}.*"
    rules |= head_rules(spec.head.masks)
    drop = (f"{BACKBONE}.model.layernorm.*", "*.relative_position_index", "*.attn_mask", "criterion.*")
    return Table(rules, NAMING, drop)


def head_rules(masks: MasksSpec) -> Rules:
    """The pyramid, the layers of queries, and the scores."""
    rules: Rules = {
        **_normed_rules("stem", f"{DECODER}.fpn.stem"),
        "head.pyramid.project.*": f"{DECODER}.mask_projection.*",
        "head.project.*": f"{QUERIES}.input_projection.*",
        "head.queries.weight": f"{QUERIES}.queries_embedder.weight",
        "head.query_norm.*": f"{QUERIES}.decoder.layernorm.*",
        "head.classes.*": "class_predictor.*",
    }
    for number in range(len(masks.pyramid.sizes) - 1):
        rules |= _normed_rules(f"sides.{number}", f"{DECODER}.fpn.layers.{number}.proj")
        rules |= _normed_rules(f"convolutions.{number}", f"{DECODER}.fpn.layers.{number}.block")
    for layer in range(masks.layers.num_layers):
        rules |= detr.layer_rules(f"head.query_layers.{layer}", f"{QUERIES}.decoder.layers.{layer}")
    for layer in range(MASK_LAYERS):
        rules[f"head.mask.{layer}.*"] = f"mask_embedder.{layer}.0.*"
    return rules


def _normed_rules(ours: str, theirs: str) -> Rules:
    """A convolution and its norm."""
    place = f"head.pyramid.{ours}"
    return {f"{place}.convolution.weight": f"{theirs}.0.weight", f"{place}.norm.*": f"{theirs}.1.*"}
