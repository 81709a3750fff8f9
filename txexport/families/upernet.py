"""UperNet (Xiao et al. 2018): labels of pixels from a pyramid of the maps of a network."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, taken
from txexport.errors import UnsupportedError
from txexport.families import beit, convnext, convnextv2, detr, maskformer, swin
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BatchNormSpec,
    ConvNextSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    MapPyramidSpec,
    MapStackSpec,
    ResNetMapsSpec,
    StagedStackSpec,
)

TASKS = {"image-segmentation": ("UperNetForSemanticSegmentation",)}
NAMING = Naming()

EPS = 1e-5  # of batch norms, which no setting names
SIDES = (512, 512)  # of an image, in reports
BACKBONES = ("convnext", "convnextv2", "resnet", "swin")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    stack = _backbone(config)
    sizes = (
        tuple(stage.hidden_size for stage in stack.stages)
        if isinstance(stack, StagedStackSpec)
        else stack.embedding.sizes
    )
    config = config.with_defaults(pool_scales=[1, 2, 3, 6], hidden_size=512)
    pyramid = MapPyramidSpec(
        sizes, tuple(config.integers("pool_scales")), BatchNormSpec(config.integer("hidden_size"), EPS)
    )
    head = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=config.labels(), segments=pyramid)
    return EncoderSpec(encoder=stack, head=head)


def _backbone(config: Config) -> StagedStackSpec | MapStackSpec:
    """The network, all of whose stages are read."""
    network = config.table("backbone_config").with_defaults(model_type="resnet")
    kind = network.text("model_type")
    if kind not in BACKBONES:
        raise UnsupportedError(
            f"{config.path}: a backbone of model_type {shortened(kind)} is not supported; expected "
            f"{', '.join(BACKBONES)}"
        )
    stack: StagedStackSpec | MapStackSpec
    if kind == "swin":
        network.expect(use_absolute_embeddings=False)
        stages = tuple(maskformer.stage(one) for one in swin.stages(network))
        stack, count = StagedStackSpec(swin.patch_grid(network), stages), len(stages)
    elif kind == "resnet":
        one = detr.resnet(network, 1)
        maps = ResNetMapsSpec(
            one.depths, one.sizes, one.stem, one.bottleneck, one.eps, one.channels, _sides(one.stride)
        )
        stack, count = MapStackSpec(maps), len(one.depths)
    else:
        scaled = kind == "convnext" and network.number("layer_scale_init_value", 1e-6) > 0
        of_blocks = convnext.network(network, scaled, kind == "convnextv2")
        of_blocks = replace(of_blocks, map_norms=True, image_size=_sides(of_blocks.stride))
        stack, count = MapStackSpec(of_blocks), len(of_blocks.depths)
    features = [f"stage{number}" for number in range(1, count + 1)]
    if network.strings("out_features") != features:
        raise UnsupportedError(
            f"{config.path}: out_features of backbone_config is "
            f"{shortened(network.values.get('out_features'))}, expected {shortened(features)}"
        )
    return stack


def _sides(stride: int) -> tuple[int, int]:
    """Height and width of an image in reports, for a network of that stride."""
    return SIDES if stride == 32 else (2 * stride, 3 * stride)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    pyramid = spec.head.map_pyramid
    assert pyramid is not None
    drop = ["auxiliary_head.*", "*.num_batches_tracked", "*.relative_position_index", "*.attn_mask"]
    rules = _pyramid_rules(pyramid)
    if isinstance(spec.encoder, StagedStackSpec):
        drop.append("backbone.swin.layernorm.*")
        inner: Rules = dict(swin.stack_rules(spec.encoder))
        rules |= _norm_rules("encoder.map_norms", len(pyramid.sizes))
    else:
        assert isinstance(spec.encoder, MapStackSpec)
        embedding = spec.encoder.embedding
        if isinstance(embedding, ResNetMapsSpec):
            rules |= detr.backbone_rules(embedding.network, "backbone")
            return Table(rules, NAMING, tuple(drop))
        inner = convnext.network_rules(spec) | _response_rules(embedding)
        rules |= _norm_rules("encoder.embedding.map_norms", len(pyramid.sizes))
    for ours, theirs in inner.items():
        rules[ours] = taken(theirs).renamed(lambda name: f"backbone.{name}")
    return Table(rules, NAMING, tuple(drop))


def _response_rules(embedding: ConvNextSpec) -> Rules:
    """The scales and shifts of ConvNeXt V2's responses."""
    return convnextv2.response_rules(embedding) if embedding.responses else {}


def _norm_rules(ours: str, count: int) -> Rules:
    """The norms of the maps."""
    return {f"{ours}.{n}.*": f"backbone.hidden_states_norms.stage{n + 1}.*" for n in range(count)}


def _pyramid_rules(pyramid: MapPyramidSpec) -> Rules:
    """The pyramid and the scores."""
    ours, head = "head.pyramid", "decode_head"
    parts = {f"{ours}.pools.{n}": f"{head}.psp_modules.{n}.1" for n in range(len(pyramid.scales))}
    parts |= {f"{ours}.pooled": f"{head}.bottleneck", f"{ours}.joint": f"{head}.fpn_bottleneck"}
    for level in range(len(pyramid.sizes) - 1):
        parts[f"{ours}.laterals.{level}"] = f"{head}.lateral_convs.{level}"
        parts[f"{ours}.outputs.{level}"] = f"{head}.fpn_convs.{level}"
    rules: Rules = {"head.scores.*": f"{head}.classifier.*"}
    for part, source in parts.items():
        rules[f"{part}.convolution.weight"] = f"{source}.conv.weight"
        rules |= beit.batch_norm_rules(f"{part}.norm", f"{source}.batch_norm")
    return rules
