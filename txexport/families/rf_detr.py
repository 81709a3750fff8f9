"""RF-DETR (Robinson et al. 2025): LW-DETR's queries over the maps of a DINOv2 of windows."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _windowed, vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    Activation,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    InstanceMasksSpec,
    MixedStackSpec,
    NormSpec,
    ProjectorSpec,
    WindowedMapsSpec,
)

TASKS = {
    "object-detection": ("RfDetrForObjectDetection",),
    "image-segmentation": ("RfDetrForInstanceSegmentation",),
}
NAMING = Naming()
REFUSED = {"RfDetrModel": "its queries are no result of a task; expected RfDetrForObjectDetection"}
ALIASES: dict[str, str] = {}

BACKBONE, PROJECTOR = "backbone.0.encoder.encoder", "backbone.0.projector.stages.0"
# Groups of queries for training, layers and a token that nothing reads, what makes masks of objects, and the
# norm of maps where it is not applied.
UNREAD = (
    "transformer.enc_out*",
    f"{BACKBONE}.encoder.layer.*",
    f"{BACKBONE}.embeddings.mask_token",
    f"{BACKBONE}.layernorm.*",
    "segmentation_head.*",
)
NETWORK = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "mlp_ratio": 4,
    "image_size": 224,
    "patch_size": 14,
    "num_windows": 4,
}
# Of a config.json without a backbone.
UNSAID = {
    "num_attention_heads": 6,
    "out_features": ["stage2", "stage5", "stage8", "stage11"],
    "hidden_size": 384,
    "image_size": 518,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(**_windowed.DEFAULTS)
    config.expect(num_feature_levels=1)
    projector = _windowed.projector_spec(config, (1.0,), layer_norm_eps=config.number("layer_norm_eps"))
    model = _windowed.detector(config, _network(config, projector))
    if task != "image-segmentation":
        return model
    assert model.head.boxes is not None
    masks = InstanceMasksSpec(
        boxes=model.head.boxes,
        hidden_size=config.integer("d_model"),
        blocks=config.count("decoder_layers"),
        inner=config.integer("intermediate_size", 1024),
        activation=config.activation("segmentation_head_activation_function", "gelu"),
        ratio=config.integer("mask_downsample_ratio", 4),
    )
    head = HeadSpec(
        HeadKind.INSTANCE_MASKS, tied=False, bias=True, labels=model.head.labels, instance_masks=masks
    )
    return replace(model, head=head)


def _network(config: Config, projector: ProjectorSpec) -> WindowedMapsSpec:
    """The DINOv2, and the maps that are read of it."""
    network = config.table("backbone_config")
    network = network.with_defaults(**(NETWORK if network.values else NETWORK | UNSAID))
    network.expect(model_type="rf_detr_dinov2", reshape_hidden_states=True)
    width, read = network.integer("hidden_size"), _windowed.read_layers(network)
    size, side = vit.image_size(network), network.integer("num_windows")
    if size[0] != size[1] or side < 1:
        raise UnsupportedError(
            f"{config.path}: image_size {shortened(size)} and num_windows {side} are not supported; expected "
            "a square, and 1 or more"
        )
    within = [layer for layer in range(read[-1] + 1) if layer not in read]
    if network.values.get("window_block_indexes") is not None:
        within = _windowed.whole_numbers(network, "window_block_indexes")
    gated = None
    if network.flag("use_swiglu_ffn", False):
        inner = _windowed.multiple(network, "mlp_ratio", width, gated=True)
        gated = FeedForwardSpec(width, inner, Activation.SILU, gated=True)
    normed = network.flag("apply_layernorm", True)
    return _windowed.windowed_maps(
        network,
        projector,
        side=side,
        pretrained=size,
        read=read,
        everywhere=[layer for layer in range(read[-1]) if layer not in within],
        tokens=1,
        antialias=True,
        gated=gated,
        norm=NormSpec(width, network.number("layer_norm_eps", _windowed.MAP_EPS)) if normed else None,
        turned=True,
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of the original, by which transformers stores them."""
    stack = spec.encoder
    assert isinstance(stack, MixedStackSpec)
    embedding = "encoder.embedding"
    layer, source = f"{embedding}.layers.{{i}}", f"{BACKBONE}.encoder.layer.{{i}}"
    rules: Rules = {
        f"{embedding}.patches.tokens.0.weight": Take(f"{BACKBONE}.embeddings.cls_token", leading_axis=True),
        f"{embedding}.patches.position.weight": Take(
            f"{BACKBONE}.embeddings.position_embeddings", leading_axis=True
        ),
        f"{embedding}.patches.project.*": f"{BACKBONE}.embeddings.patch_embeddings.projection.*",
        f"{embedding}.norm.*": f"{BACKBONE}.layernorm.*",
        f"{layer}.attention.o.*": f"{source}.attention.output.dense.*",
        f"{layer}.attention_norm.*": f"{source}.norm1.*",
        f"{layer}.attention_scale.weight": f"{source}.layer_scale1.lambda1",
        f"{layer}.feed_forward_norm.*": f"{source}.norm2.*",
        f"{layer}.feed_forward_scale.weight": f"{source}.layer_scale2.lambda1",
    }
    for name, theirs in (("q", "query"), ("k", "key"), ("v", "value")):
        rules[f"{layer}.attention.{name}.*"] = f"{source}.attention.attention.{theirs}.*"
    network = stack.embedding.block.feed_forward
    gated = isinstance(network, FeedForwardSpec) and network.gated
    parts = (
        {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"} if gated else {"up": "fc1", "down": "fc2"}
    )
    for name, theirs in parts.items():
        rules[f"{layer}.feed_forward.{name}.*"] = f"{source}.mlp.{theirs}.*"
    rules |= _level_rules(f"{embedding}.levels.0", stack.embedding.projector.blocks)
    if spec.head.instance_masks is not None:
        rules |= _mask_rules(spec.head.instance_masks.blocks)
    return Table(rules | _detector_rules(stack), NAMING, UNREAD)


def _level_rules(ours: str, blocks: int) -> Rules:
    """The projector to the level."""
    rules: Rules = {f"{ours}.norm.*": f"{PROJECTOR}.1.*"}
    sources = {"first": "cv1", "last": "cv2"}
    for pair in range(blocks):
        sources |= {f"pairs.{pair}.{number}": f"m.{pair}.cv{number + 1}" for number in range(2)}
    for name, source in sources.items():
        rules[f"{ours}.{name}.convolution.weight"] = f"{PROJECTOR}.0.{source}.conv.weight"
        rules[f"{ours}.{name}.norm.*"] = f"{PROJECTOR}.0.{source}.bn.*"
    return rules


def _mask_rules(blocks: int) -> Rules:
    """The head of masks, over queries and a map."""
    source = "segmentation_head"
    rules: Rules = {
        "head.places.*": f"{source}.spatial_features_proj.*",
        "head.norm.*": f"{source}.query_features_block.norm_in.*",
        "head.network.up.*": f"{source}.query_features_block.layers.0.*",
        "head.network.down.*": f"{source}.query_features_block.layers.2.*",
        "head.query.*": f"{source}.query_features_proj.*",
        "head.bias": f"{source}.bias",
    }
    for number in range(blocks):
        for name, theirs in (("each", "dwconv"), ("norm", "norm"), ("point", "pwconv1")):
            rules[f"head.blocks.{number}.{name}.*"] = f"{source}.blocks.{number}.{theirs}.*"
    return rules


def _detector_rules(stack: MixedStackSpec) -> Rules:
    """Queries, the layers over them, and the head, of the first group of queries."""
    decoder, ours = "transformer.decoder", "encoder.query_layers.{i}"
    sources = {"queries": "query_feat", "boxes": "refpoint_embed", "norm": "norm"}
    rules = _windowed.query_rules(stack, "transformer", decoder, **sources)
    theirs = f"{decoder}.layers.{{i}}"
    for part, name in enumerate("qkv"):
        for kind in ("weight", "bias"):
            fused = f"{theirs}.self_attn.in_proj_{kind}"
            rules[f"{ours}.attention.{name}.{kind}"] = Take(fused, part=part, parts=3)
    return rules | {
        f"{ours}.attention.o.*": f"{theirs}.self_attn.out_proj.*",
        f"{ours}.attention_norm.*": f"{theirs}.norm1.*",
        f"{ours}.cross_attention_norm.*": f"{theirs}.norm2.*",
        f"{ours}.feed_forward.up.*": f"{theirs}.linear1.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.linear2.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.norm3.*",
    }
