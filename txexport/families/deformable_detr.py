"""Deformable DETR (Zhu et al. 2021): queries read points of a residual network's maps."""

from collections.abc import Mapping
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import detr
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BoxesSpec,
    DeformableStackSpec,
    EncoderSpec,
    GroupNormSpec,
    HeadKind,
    HeadSpec,
    MaskedMapsSpec,
    NormSpec,
    QueryBlockSpec,
    QueryLayersSpec,
    ResNetMapsSpec,
)

TASKS = {"object-detection": ("DeformableDetrForObjectDetection",)}
NAMING = Naming()
REFUSED = {
    "DeformableDetrModel": "its queries are no result of a task; expected DeformableDetrForObjectDetection"
}
ALIASES = {"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads"}
LIBRARY_NAMES = detr.LIBRARY_NAMES

GROUPS, EPS = 32, 1e-5  # of norms
READ = 3  # maps of a backbone of timm that are read
DEFAULTS = {
    "d_model": 256,
    "encoder_layers": 6,
    "encoder_attention_heads": 8,
    "encoder_ffn_dim": 1024,
    "encoder_n_points": 4,
    "decoder_layers": 6,
    "decoder_attention_heads": 8,
    "decoder_ffn_dim": 1024,
    "decoder_n_points": 4,
    "num_feature_levels": 4,
    "num_queries": 300,
    "two_stage_num_proposals": 300,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(**DEFAULTS)
    config.expect(position_embedding_type="sine", dilation=False)
    config.expect(tie_word_embeddings=True)  # of all layers' heads
    width, levels = config.integer("d_model"), config.integer("num_feature_levels")
    config.check_width("d_model", width)
    if width % GROUPS:
        raise UnsupportedError(
            f"{config.path}: d_model is {width}, expected a multiple of {GROUPS}, the groups of norms"
        )
    embedding = _maps(config)
    if levels < embedding.levels:
        raise UnsupportedError(
            f"{config.path}: num_feature_levels is {levels}, expected {embedding.levels} or more, one for "
            "each map of the backbone"
        )
    proposed = config.flag("two_stage", False)
    stack = DeformableStackSpec(
        embedding=embedding,
        levels=levels,
        map_norm=GroupNormSpec(width, GROUPS, EPS),
        block=QueryBlockSpec(NormSpec(width, EPS), config.activation("activation_function", "relu")),
        cells=_layers(config, "encoder"),
        cell_points=config.integer("encoder_n_points"),
        objects=_layers(config, "decoder"),
        object_points=config.integer("decoder_n_points"),
        queries=config.integer("two_stage_num_proposals" if proposed else "num_queries"),
        refined=config.flag("with_box_refine", False),
        proposed=proposed,
    )
    boxes = BoxesSpec(stack.queries, 1, stack.box_layers, refined=True)
    head = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=config.labels(), boxes=boxes)
    return EncoderSpec(encoder=stack, head=head)


def _layers(config: Config, part: str) -> QueryLayersSpec:
    """The layers of the encoder or of the decoder."""
    heads, inner = config.integer(f"{part}_attention_heads"), config.integer(f"{part}_ffn_dim")
    return QueryLayersSpec(config.count(f"{part}_layers"), heads, inner)


def _maps(config: Config) -> MaskedMapsSpec:
    """The residual network, and its last maps that are read."""
    spec = detr.backbone(config, 1)
    stages = [f"stage{number}" for number in range(1, len(spec.sizes) + 1)]
    features = stages[-_read_of_timm(config) :]
    if detr.timm_backbone(config) is None:
        features = config.table("backbone_config").strings("out_features") or stages[-1:]
    if features != stages[-len(features) :]:
        raise UnsupportedError(
            f"{config.path}: out_features {shortened(features)} is not supported; expected the last of "
            f"{', '.join(stages)}"
        )
    sizes = spec.depths, spec.sizes, spec.stem, spec.bottleneck, spec.eps, spec.channels, spec.image_size
    return MaskedMapsSpec(ResNetMapsSpec(*sizes), len(features))


def _read_of_timm(config: Config) -> int:
    """The number of maps that are read of a backbone of timm."""
    return READ if config.integer("num_feature_levels", DEFAULTS["num_feature_levels"]) > 1 else 1


def spelt_out(config: Config) -> tuple[Mapping[str, Any], str] | None:
    """As DETR's, of a backbone whose last maps are read."""
    respelt = detr.spelt_out(config)
    if respelt is None:
        return None
    values, note = respelt
    network = dict(values["backbone_config"])
    for name in ("out_features", "out_indices"):
        network[name] = network[name][-_read_of_timm(config) :]
    return {**values, "backbone_config": network}, note


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers, which has one box or several."""
    stack = spec.encoder
    assert isinstance(stack, DeformableStackSpec)
    count, rules = stack.objects.num_layers, Rules()
    for ours, theirs in detr.backbone_rules(stack.embedding.maps.network).items():
        rules[ours.replace("embedding.", "embedding.network.", 1)] = theirs
    rules |= {"encoder.level_embed.weight": "model.level_embed"}
    for level in range(stack.levels):
        rules[f"encoder.maps.{level}.convolution.*"] = f"model.input_proj.{level}.0.*"
        rules[f"encoder.maps.{level}.norm.*"] = f"model.input_proj.{level}.1.*"
    for layer in range(stack.box_layers):
        if stack.proposed:
            rules[f"encoder.proposals.box.{layer}.*"] = _of_layer("bbox_embed", count, f".layers.{layer}")
        for number in range(count - 1 if stack.refined else 0):
            ours = f"encoder.boxes.{number}.layers.{layer}.*"
            rules[ours] = _of_layer("bbox_embed", number, f".layers.{layer}")
        rules[f"head.box.{layer}.*"] = _of_layer("bbox_embed", count - 1, f".layers.{layer}")
    rules["head.scores.0.*"] = _of_layer("class_embed", count - 1)
    if stack.proposed:
        rules |= {
            "encoder.proposals.vector.*": "model.enc_output.*",
            "encoder.proposals.norm.*": "model.enc_output_norm.*",
            "encoder.proposals.score.*": _of_layer("class_embed", count, parts=spec.head.labels),
            "encoder.proposals.position.*": "model.pos_trans.*",
            "encoder.proposals.position_norm.*": "model.pos_trans_norm.*",
        }
    else:
        rules |= {
            "encoder.queries.vectors.weight": "model.query_position_embeddings.weight",
            "encoder.queries.point.*": "model.reference_points.*",
        }
    # Scores and boxes of earlier layers are of training, or copies.
    heads = "class_embed.*", "bbox_embed.*"
    copies = [f"model.decoder.{name}" for name in heads]
    drop = "*.num_batches_tracked", f"{detr.MODEL}.fc.*", *heads, *copies
    return Table(rules | _layer_rules(), NAMING, drop)


def _of_layer(name: str, number: int, ending: str = "", parts: int = 1) -> Take:
    """Scores or boxes of a layer, stored twice, or once for all layers; of `parts`, the first."""
    source, other = (f"{prefix}{name}.{number}{ending}.*" for prefix in ("", "model.decoder."))
    return Take(source, also=(other,), fallback=f"{name}.0{ending}.*", parts=parts)


def _layer_rules() -> Rules:
    """The layers over places, and those over queries."""
    rules = _deformable_rules("encoder.layers.{i}.attention", "model.encoder.layers.{i}.self_attn")
    rules["encoder.layers.{i}.attention_norm.*"] = "model.encoder.layers.{i}.self_attn_layer_norm.*"
    ours, theirs = "encoder.query_layers.{i}", "model.decoder.layers.{i}"
    rules |= _deformable_rules(f"{ours}.cross_attention", f"{theirs}.encoder_attn")
    for name, source in {"q": "q_proj", "k": "k_proj", "v": "v_proj", "o": "out_proj"}.items():
        rules[f"{ours}.attention.{name}.*"] = f"{theirs}.self_attn.{source}.*"
    rules[f"{ours}.attention_norm.*"] = f"{theirs}.self_attn_layer_norm.*"
    rules[f"{ours}.cross_attention_norm.*"] = f"{theirs}.encoder_attn_layer_norm.*"
    for part, source in (("encoder.layers.{i}", "model.encoder.layers.{i}"), (ours, theirs)):
        rules[f"{part}.feed_forward.up.*"] = f"{source}.fc1.*"
        rules[f"{part}.feed_forward.down.*"] = f"{source}.fc2.*"
        rules[f"{part}.feed_forward_norm.*"] = f"{source}.final_layer_norm.*"
    return rules


def _deformable_rules(ours: str, theirs: str) -> Rules:
    parts = {
        "offsets": "sampling_offsets",
        "shares": "attention_weights",
        "v": "value_proj",
        "o": "output_proj",
    }
    return {f"{ours}.{name}.*": f"{theirs}.{other}.*" for name, other in parts.items()}
