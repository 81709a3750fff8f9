"""Parts that LW-DETR and RF-DETR share: a ViT with window attention, a projector, and queries."""

from typing import Any

from txexport.checkpoints.weight_map import Rules, Take
from txexport.errors import CheckpointError
from txexport.families import vit
from txexport.families._config import Config, shortened
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

EPS, MAP_EPS = 1e-5, 1e-6  # of the norms of queries, and of maps, which have no settings
LONGEST = 2**31  # of a width
MOST = 640  # pixels of a side in reports and cases, as published image processors make images
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


def projector_spec(config: Config, scales: tuple[float, ...], **norms: float) -> ProjectorSpec:
    """The projector to levels of the network's maps, with an epsilon of its norms."""
    width = config.integer("d_model")
    config.check_width("d_model", width)
    return ProjectorSpec(
        size=width,
        inner=multiple(config, "hidden_expansion", width),
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


def query_rules(
    stack: MixedStackSpec, model: str, decoder: str, *, queries: str, boxes: str, norm: str
) -> Rules:
    """The parameters that both families store alike: proposals, queries, their boxes and scores.

    `queries`, `boxes` and `norm` are the tensors' names, the last within the `decoder`.
    """
    rules: Rules = {
        "encoder.proposals.vector.*": f"{model}.enc_output.0.*",
        "encoder.proposals.norm.*": f"{model}.enc_output_norm.0.*",
        "encoder.proposals.scores.*": f"{model}.enc_out_class_embed.0.*",
        "encoder.queries.vectors": Take(f"{queries}.weight", parts=stack.groups),
        "encoder.queries.changes": Take(f"{boxes}.weight", parts=stack.groups),
        "encoder.query_norm.*": f"{decoder}.{norm}.*",
        "head.scores.0.*": "class_embed.*",
    }
    for layer in range(2):
        rules[f"encoder.query_position.layers.{layer}.*"] = f"{decoder}.ref_point_head.layers.{layer}.*"
    for layer in range(stack.box_layers):
        rules[f"encoder.proposals.box.{layer}.*"] = f"{model}.enc_out_bbox_embed.0.layers.{layer}.*"
        rules[f"head.box.{layer}.*"] = f"bbox_embed.layers.{layer}.*"
    for name, other in DEFORMABLE.items():
        theirs = f"{decoder}.layers.{{i}}.cross_attn.{other}.*"
        rules[f"encoder.query_layers.{{i}}.cross_attention.{name}.*"] = theirs
    return rules


def multiple(config: Config, key: str, width: int, gated: bool = False) -> int:
    """A width that is a setting times another one, rounded down; of a gated network two thirds, by eights."""
    result = int(min(width * config.number(key), LONGEST))
    result = (int(result * 2 / 3) + 7) // 8 * 8 if gated else result
    config.check_width(f"width times {key}", result)
    return result


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
    """A ViT with LayerScale and window attention, but for the layers `everywhere`.

    `switches` are fields of the spec.
    """
    width, heads = network.integer("hidden_size"), network.integer("num_attention_heads")
    head_dim, patch, size = network.head_dim(width, heads), vit.patch_size(network), vit.image_size(network)
    network.expect(head_dim=head_dim)
    if patch < 1 or min(pretrained) < patch:
        raise CheckpointError(f"{network.path}: an image of {pretrained} pixels has no patch of {patch}")
    attention = AttentionSpec(
        width, heads, heads, head_dim, causal=False, bias=network.flag("qkv_bias", True), unmasked=True
    )
    activation = network.activation("hidden_act", "gelu")
    feed_forward = gated or FeedForwardSpec(width, multiple(network, "mlp_ratio", width), activation)
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
    """The pixels of a side, at most MOST, rounded to patches and up to a multiple of `side` patches."""
    return -(-max(min(pixels, MOST) // patch, 1) // side) * side * patch


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
    """A list of layers' numbers; empty where null or nothing is stored."""
    values = network.values.get(key) or []
    if not isinstance(values, list) or any(type(value) is not int for value in values):
        raise CheckpointError(f"{network.path}: {key} is {shortened(values)}, expected whole numbers")
    return values
