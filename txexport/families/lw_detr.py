"""LW-DETR (Chen et al. 2024): a ViT of windows, and learned queries whose boxes begin as its places."""

import math
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take, zeros
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.families.rt_detr import DEFORMABLE
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    BoxesSpec,
    DeformableAttentionSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    MixedStackSpec,
    NormPlacement,
    NormSpec,
    PatchSpec,
    ProjectorSpec,
    QueryBlockSpec,
    QueryLayersSpec,
    WindowedMapsSpec,
)
from txexport.spec.windowed_maps import NARROWED, SCALES

TASKS = {"object-detection": ("LwDetrForObjectDetection",)}
NAMING = Naming()
REFUSED = {"LwDetrModel": "its queries are no result of a task; expected LwDetrForObjectDetection"}
ALIASES: dict[str, str] = {}

EPS, MAP_EPS = 1e-5, 1e-6  # of the norms of queries, and of maps, which have no settings
BACKBONE, PROJECTOR, DECODER = "model.backbone.backbone", "model.backbone.projector", "model.decoder"
DEFAULTS = {
    "hidden_expansion": 0.5,
    "c2f_num_blocks": 3,
    "batch_norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "d_model": 256,
    "decoder_ffn_dim": 2048,
    "decoder_n_points": 4,
    "decoder_layers": 3,
    "decoder_self_attention_heads": 8,
    "decoder_cross_attention_heads": 16,
    "num_queries": 300,
    "group_detr": 13,
}
NETWORK = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "mlp_ratio": 4,
    "image_size": 256,
    "pretrain_image_size": 224,
    "num_windows": 16,
    "window_block_indices": [],
}
# Of a config.json without a backbone.
UNSAID = {
    "image_size": 1024,
    "hidden_size": 192,
    "num_hidden_layers": 10,
    "window_block_indices": [0, 1, 3, 6, 7, 9],
    "out_indices": [2, 4, 5, 9],
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(**DEFAULTS)
    scales = tuple(config.numbers("projector_scale_factors"))
    if not scales or len(scales) > 8 or any(scale not in SCALES for scale in scales):
        raise UnsupportedError(
            f"{config.path}: projector_scale_factors {shortened(scales)} are not supported; expected one to "
            f"eight of {', '.join(map(str, SCALES))}"
        )
    config.expect(num_feature_levels=len(scales), projector_out_channels=config.values["d_model"])
    projector = projector_spec(config, scales, batch_norm_eps=config.number("batch_norm_eps"))
    return detector(config, _network(config, projector))


def projector_spec(config: Config, scales: tuple[float, ...], **norms: float) -> ProjectorSpec:
    """What makes levels of the network's maps, with an epsilon of its norms."""
    width = config.integer("d_model")
    config.check_width("d_model", width)
    return ProjectorSpec(
        size=width,
        inner=int(width * config.number("hidden_expansion")),
        blocks=config.count("c2f_num_blocks"),
        activation=config.activation("activation_function", "silu"),
        norm=NormSpec(width, MAP_EPS),
        scales=scales,
        **norms,
    )


def detector(config: Config, network: WindowedMapsSpec) -> EncoderSpec:
    """The architecture over a network."""
    width, levels = config.integer("d_model"), network.levels
    objects = QueryLayersSpec(
        config.count("decoder_layers"),
        config.integer("decoder_self_attention_heads"),
        config.integer("decoder_ffn_dim"),
    )
    config.expect(attention_bias=True, head_dim=width // objects.num_heads)
    crossed = config.integer("decoder_cross_attention_heads"), levels, config.integer("decoder_n_points")
    stack = MixedStackSpec(
        embedding=network,
        objects=objects,
        block=QueryBlockSpec(NormSpec(width, EPS), config.activation("decoder_activation_function", "relu")),
        attention=DeformableAttentionSpec(width, *crossed, by_level=True),
        queries=config.integer("num_queries"),
        labels=config.labels(),
        groups=config.integer("group_detr"),
    )
    boxes = BoxesSpec(stack.queries, 1, stack.box_layers, refined=True, scaled=True)
    head = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=stack.labels, boxes=boxes)
    return EncoderSpec(encoder=stack, head=head)


def _network(config: Config, projector: ProjectorSpec) -> WindowedMapsSpec:
    """The ViT, and the maps that are read of it."""
    network = config.table("backbone_config")
    network = network.with_defaults(**(NETWORK if network.values else NETWORK | UNSAID))
    network.expect(model_type="lw_detr_vit", use_absolute_position_embeddings=True)
    windows = network.integer("num_windows")
    side = math.isqrt(windows) if windows > 0 else 0
    if side**2 != windows or not side:
        raise CheckpointError(f"{config.path}: num_windows is {windows}, expected a square number")
    network.expect(num_windows_side=side)
    pretrained = vit.image_size(network.replaced(image_size=network.values["pretrain_image_size"]))
    if pretrained[0] != pretrained[1]:
        raise UnsupportedError(
            f"{config.path}: pretrain_image_size {shortened(pretrained)} is not supported; expected a square"
        )
    read = read_layers(network)
    within = whole_numbers(network, "window_block_indices")
    return windowed_maps(
        network,
        projector,
        side=side,
        pretrained=pretrained,
        read=read,
        everywhere=[layer for layer in range(read[-1]) if layer not in within],
    )


def windowed_maps(
    network: Config,
    projector: ProjectorSpec,
    *,
    side: int,
    pretrained: tuple[int, int],
    read: list[int],
    everywhere: list[int],
    tokens: int = 0,
    antialias: bool = False,
    gated: FeedForwardSpec | None = None,
    **switches: Any,
) -> WindowedMapsSpec:
    """A ViT with LayerScale whose layers but `everywhere` read windows; `switches` are those of the spec."""
    width, heads = network.integer("hidden_size"), network.integer("num_attention_heads")
    head_dim, patch, size = network.head_dim(width, heads), vit.patch_size(network), vit.image_size(network)
    network.expect(head_dim=head_dim)
    if patch < 1 or min(pretrained) < patch:
        raise CheckpointError(f"{network.path}: an image of {pretrained} pixels has no patch of {patch}")
    attention = AttentionSpec(
        width, heads, heads, head_dim, causal=False, bias=network.flag("qkv_bias", True), unmasked=True
    )
    inner = int(width * network.number("mlp_ratio"))
    feed_forward = gated or FeedForwardSpec(width, inner, network.activation("hidden_act", "gelu"))
    norm = NormSpec(width, network.number("layer_norm_eps", MAP_EPS))
    return WindowedMapsSpec(
        patches=PatchSpec(
            width,
            pretrained,
            patch,
            network.integer("num_channels", 3),
            tokens,
            any_size=True,
            antialias=antialias,
        ),
        block=BlockSpec(attention, feed_forward, norm, NormPlacement.PRE, layer_scale=True),
        side=side,
        everywhere=tuple(everywhere),
        read=tuple(read),
        projector=projector,
        image_size=(_fitting(size[0], patch, side), _fitting(size[1], patch, side)),
        **switches,
    )


def _fitting(pixels: int, patch: int, side: int) -> int:
    """The pixels of as many patches of an image's side as there are, or of the next multiple of `side`."""
    return -(-max(pixels // patch, 1) // side) * side * patch


def read_layers(network: Config) -> list[int]:
    """The layers whose maps are read; 0 is what the first one reads."""
    layers = network.count("num_hidden_layers")
    stages = ["stem", *(f"stage{number}" for number in range(1, layers + 1))]
    features, indices = network.strings("out_features"), whole_numbers(network, "out_indices")
    if any(name not in stages for name in features):
        raise CheckpointError(
            f"{network.path}: out_features {shortened(features)} are none of {layers} layers"
        )
    read = [index % len(stages) for index in indices] or [stages.index(name) for name in features] or [layers]
    named = [stages.index(name) for name in features] or read
    last = max(read)
    if named != read or read != sorted({*read}) or not last or max(map(abs, [*indices, last])) > layers + 1:
        raise CheckpointError(
            f"{network.path}: out_indices {shortened(indices)} and out_features {shortened(features)}; "
            f"expected the same rising layers of {layers} in both, not the embedding alone"
        )
    return read


def whole_numbers(network: Config, key: str) -> list[int]:
    """Numbers of layers, of which there may be one of 0, or none where null or nothing is stored."""
    values = network.values.get(key) or []
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        raise CheckpointError(f"{network.path}: {key} is {shortened(values)}, expected whole numbers")
    return values


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; keys have no bias."""
    stack = spec.encoder
    assert isinstance(stack, MixedStackSpec)
    embedding, source = stack.embedding, f"{BACKBONE}.encoder.layer.{{i}}"
    patches, layer = embedding.patches, "encoder.embedding.layers.{i}"
    rules: Rules = {
        # The first of the table is that of a token that is not there.
        "encoder.embedding.patches.position.weight": Take(
            f"{BACKBONE}.embeddings.position_embeddings",
            part=1,
            parts=1 + patches.patches,
            width=patches.patches,
            leading_axis=True,
        ),
        "encoder.embedding.patches.project.*": f"{BACKBONE}.embeddings.projection.*",
        f"{layer}.attention.o.*": Take(
            f"{source}.attention.output.*", fallback=f"{source}.attention.o_proj.*"
        ),
        f"{layer}.attention.k.bias": Take("", computed=zeros),
        f"{layer}.attention_norm.*": f"{source}.layernorm_before.*",
        f"{layer}.attention_scale.weight": f"{source}.gamma_1",
        f"{layer}.feed_forward.up.*": f"{source}.intermediate.fc1.*",
        f"{layer}.feed_forward.down.*": f"{source}.intermediate.fc2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.layernorm_after.*",
        f"{layer}.feed_forward_scale.weight": f"{source}.gamma_2",
    }
    for name, theirs in (("q", "query"), ("k", "key"), ("v", "value")):
        parts = ("weight",) if name == "k" else ("weight", "bias")
        for part in parts:
            rules[f"{layer}.attention.{name}.{part}"] = Take(
                f"{source}.attention.attention.{theirs}.{part}",
                fallback=f"{source}.attention.{name}_proj.{part}",
            )
    for level, scale in enumerate(embedding.projector.scales):
        theirs = f"{PROJECTOR}.scale_layers.{level}"
        rules |= level_rules(f"encoder.embedding.levels.{level}", theirs, embedding.projector)
        narrow = scale == 2.0 and patches.hidden_size > NARROWED
        for number in range(len(embedding.read)):
            ours = f"encoder.embedding.levels.{level}.resize.{number}"
            layers = f"{theirs}.sampling_layers.{number}.layers"
            if scale == 2.0:
                rules[f"{ours}.finer.*"] = f"{layers}.{int(narrow)}.*"
            if narrow or scale == 0.5:
                rules |= _convolution(
                    f"{ours}.{'narrow' if narrow else 'coarser'}", f"{layers}.0", batched=True
                )
    return Table(rules | detector_rules(stack), NAMING, ("*.num_batches_tracked", *DROPPED))


DROPPED = (  # of groups of queries for training, and layers that nothing reads
    "model.enc_out*",
    f"{BACKBONE}.encoder.layer.*",
)


def level_rules(ours: str, theirs: str, projector: ProjectorSpec) -> Rules:
    """What makes a level of maps that are resized."""
    batched = projector.layer_norm_eps is None
    rules: Rules = {f"{ours}.norm.*": f"{theirs}.layer_norm.*"}
    for name, other in (("first", "conv1"), ("last", "conv2")):
        rules |= _convolution(f"{ours}.{name}", f"{theirs}.projector_layer.{other}", batched)
    for pair in range(projector.blocks):
        for number in range(2):
            source = f"{theirs}.projector_layer.bottlenecks.{pair}.conv{number + 1}"
            rules |= _convolution(f"{ours}.pairs.{pair}.{number}", source, batched)
    return rules


def _convolution(ours: str, theirs: str, batched: bool) -> Rules:
    """A convolution and its norm, of a batch or of channels."""
    rules: Rules = {f"{ours}.convolution.weight": f"{theirs}.conv.weight"}
    if not batched:
        return rules | {f"{ours}.norm.*": f"{theirs}.norm.*"}
    stored = {"weight": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}
    return rules | {f"{ours}.norm.{name}": f"{theirs}.norm.{other}" for name, other in stored.items()}


def detector_rules(stack: MixedStackSpec) -> Rules:
    """Queries, the layers over them, and the head, of the first group of queries."""
    rules: Rules = {
        "encoder.proposals.vector.*": "model.enc_output.0.*",
        "encoder.proposals.norm.*": "model.enc_output_norm.0.*",
        "encoder.proposals.scores.*": "model.enc_out_class_embed.0.*",
        "encoder.queries.vectors": Take("model.query_feat.weight", parts=stack.groups),
        "encoder.queries.changes": Take("model.reference_point_embed.weight", parts=stack.groups),
        "encoder.query_norm.*": f"{DECODER}.layernorm.*",
        "head.scores.0.*": "class_embed.*",
    }
    for layer in range(2):
        rules[f"encoder.query_position.layers.{layer}.*"] = f"{DECODER}.ref_point_head.layers.{layer}.*"
    for layer in range(stack.box_layers):
        rules[f"encoder.proposals.box.{layer}.*"] = f"model.enc_out_bbox_embed.0.layers.{layer}.*"
        rules[f"head.box.{layer}.*"] = f"bbox_embed.layers.{layer}.*"
    ours, theirs = "encoder.query_layers.{i}", f"{DECODER}.layers.{{i}}"
    for name in "qkvo":
        rules[f"{ours}.attention.{name}.*"] = f"{theirs}.self_attn.{name}_proj.*"
    for name, other in DEFORMABLE.items():
        rules[f"{ours}.cross_attention.{name}.*"] = f"{theirs}.cross_attn.{other}.*"
    rules |= {
        f"{ours}.attention_norm.*": f"{theirs}.self_attn_layer_norm.*",
        f"{ours}.cross_attention_norm.*": f"{theirs}.cross_attn_layer_norm.*",
        f"{ours}.feed_forward.up.*": f"{theirs}.mlp.fc1.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.mlp.fc2.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.layer_norm.*",
    }
    return rules
