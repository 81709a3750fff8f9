"""DAB-DETR (Liu et al. 2022): DETR with anchor boxes as queries."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import detr
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    AnchorStackSpec,
    BoxesSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    NormSpec,
    QueryBlockSpec,
)
from txexport.spec.enums import Activation

TASKS = {"object-detection": ("DabDetrForObjectDetection",)}
NAMING = Naming()
REFUSED = {"DabDetrModel": "its queries are no result of a task; expected DabDetrForObjectDetection"}
ALIASES = {"num_attention_heads": "encoder_attention_heads", "num_hidden_layers": "encoder_layers"}
LIBRARY_NAMES, spelt_out = detr.LIBRARY_NAMES, detr.spelt_out

HEIGHT, WIDTH = "temperature_height", "temperature_width"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(**{"hidden_size": 256, HEIGHT: 20, WIDTH: 20})
    config.expect(
        activation_function="prelu",
        dilation=False,
        query_dim=4,
        sine_position_embedding_scale=None,
        tie_word_embeddings=True,  # or the library fills what changes boxes between layers at random
    )
    config.expect(**{WIDTH: config.values[HEIGHT]})
    width = config.integer("hidden_size")
    config.check_width("hidden_size", width)
    objects = detr.layers(config, "decoder")
    if objects.num_layers < 2:
        raise UnsupportedError(f"{config.path}: decoder_layers is {objects.num_layers}, expected 2 or more")
    stack = AnchorStackSpec(
        embedding=detr.backbone(config, width),
        cells=detr.layers(config, "encoder"),
        objects=objects,
        block=QueryBlockSpec(NormSpec(width, detr.EPS), Activation.PRELU),
        boxes=config.integer("num_queries", 300),
        patterns=config.integer("num_patterns", 0),
        placed=config.flag("keep_query_pos", False),
        cells_norm=config.flag("normalize_before", False),
        temperature=config.number(HEIGHT),
    )
    boxes = BoxesSpec(stack.queries, 1, stack.box_layers, refined=True)
    head = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=config.labels(), boxes=boxes)
    return EncoderSpec(encoder=stack, head=head)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers, where one network may change all boxes."""
    stack = spec.encoder
    assert isinstance(stack, AnchorStackSpec)
    rules: Rules = {
        "encoder.embedding.project.*": "model.input_projection.*",
        "encoder.queries.boxes": "model.query_refpoint_embeddings.weight",
        "encoder.queries.patterns": "model.patterns.weight",
        "encoder.layers_norm.*": "model.encoder.norm.*",
        "encoder.query_norm.*": "model.decoder.layernorm.*",
        "head.scores.0.*": "class_embed.*",
    }
    for layer in range(stack.box_layers):
        source = f"bbox_predictor.layers.{layer}.*"
        changes = f"model.decoder.bbox_embed.layers.{layer}.*"
        rules[f"encoder.boxes.layers.{layer}.*"] = Take(changes, fallback=source)
        rules[f"head.box.{layer}.*"] = Take(source, fallback=changes)
    for layer in range(2):
        for ours, theirs in NETWORKS.items():
            rules[f"encoder.{ours}.layers.{layer}.*"] = f"model.{theirs}.layers.{layer}.*"
    rules |= detr.backbone_rules(stack.embedding)
    for layer in range(stack.cells.num_layers):
        rules |= detr.layer_rules(f"encoder.layers.{layer}", f"model.encoder.layers.{layer}")
        source = f"model.encoder.layers.{layer}.activation_fn"
        rules[f"encoder.layers.{layer}.feed_forward.act.*"] = f"{source}.*"
    for layer in range(stack.objects.num_layers):
        rules |= _object_rules(f"encoder.query_layers.{layer}", f"model.decoder.layers.{layer}")
    return Table(rules, NAMING, ("*.num_batches_tracked", f"{detr.MODEL}.fc.*"))


NETWORKS = {
    "cell_scale": "encoder.query_scale",
    "query_position": "decoder.ref_point_head",
    "query_scale": "decoder.query_scale",
    "query_sides": "decoder.ref_anchor_head",
}


def _object_rules(ours: str, theirs: str) -> Rules:
    """A layer over queries."""
    rules: Rules = {}
    for part, name in (("attention", "self_attn"), ("cross_attention", "cross_attn")):
        source = f"{theirs}.{name}.{name}"
        for short, long in (("q", "query"), ("k", "key")):
            rules[f"{ours}.{part}.{short}.*"] = f"{source}_{long}_content_proj.*"
            rules[f"{ours}.{part}.{short}_position.*"] = f"{source}_{long}_pos_proj.*"
        rules[f"{ours}.{part}.v.*"] = f"{source}_value_proj.*"
        rules[f"{ours}.{part}.o.*"] = f"{source}.output_proj.*"
        rules[f"{ours}.{part}_norm.*"] = f"{source}_layer_norm.*"
    return rules | {
        f"{ours}.cross_attention.q_sine.*": f"{theirs}.cross_attn.cross_attn_query_pos_sine_proj.*",
        f"{ours}.feed_forward.up.*": f"{theirs}.mlp.fc1.*",
        f"{ours}.feed_forward.act.*": f"{theirs}.mlp.activation_fn.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.mlp.fc2.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.mlp.final_layer_norm.*",
    }
