"""Conditional DETR (Meng et al. 2021): DETR whose queries read the map near points."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import detr
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BoxesSpec,
    ConditionalStackSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    NormSpec,
    QueryBlockSpec,
)

TASKS = {"object-detection": ("ConditionalDetrForObjectDetection",)}
NAMING = Naming()
REFUSED = {
    "ConditionalDetrModel": "its queries are no result of a task; expected ConditionalDetrForObjectDetection",
    "ConditionalDetrForSegmentation": "masks are not supported; expected ConditionalDetrForObjectDetection",
}
ALIASES, LIBRARY_NAMES, spelt_out = detr.ALIASES, detr.LIBRARY_NAMES, detr.spelt_out


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; auxiliary losses would add norms between layers."""
    config = config.with_defaults(d_model=256)
    config.expect(position_embedding_type="sine", dilation=False, auxiliary_loss=False)
    width = config.integer("d_model")
    config.check_width("d_model", width)
    stack = ConditionalStackSpec(
        embedding=detr.backbone(config, width),
        cells=detr.layers(config, "encoder"),
        objects=detr.layers(config, "decoder"),
        block=QueryBlockSpec(NormSpec(width, detr.EPS), config.activation("activation_function", "relu")),
        queries=config.integer("num_queries", 300),
    )
    boxes = BoxesSpec(stack.queries, 1, 3, refined=True)
    head = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=config.labels(), boxes=boxes)
    return EncoderSpec(encoder=stack, head=head)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers, whose backbone may have timm's names."""
    stack = spec.encoder
    assert isinstance(stack, ConditionalStackSpec)
    rules: Rules = {
        "encoder.embedding.project.*": "model.input_projection.*",
        "encoder.queries.weight": "model.query_position_embeddings.weight",
        "encoder.query_norm.*": "model.decoder.layernorm.*",
        "head.scores.0.*": "class_labels_classifier.*",
    }
    for layer in range(3):
        rules[f"head.box.{layer}.*"] = f"bbox_predictor.layers.{layer}.*"
    for layer in range(2):
        for ours, theirs in (("query_position", "ref_point_head"), ("query_scale", "query_scale")):
            rules[f"encoder.{ours}.layers.{layer}.*"] = f"model.decoder.{theirs}.layers.{layer}.*"
    rules |= detr.backbone_rules(stack.embedding)
    for layer in range(stack.cells.num_layers):
        rules |= detr.layer_rules(f"encoder.layers.{layer}", f"model.encoder.layers.{layer}")
    for layer in range(stack.objects.num_layers):
        rules |= _object_rules(f"encoder.query_layers.{layer}", f"model.decoder.layers.{layer}")
    return Table(rules, NAMING, ("*.num_batches_tracked", f"{detr.MODEL}.fc.*"))


def _object_rules(ours: str, theirs: str) -> Rules:
    """A layer over queries, by the names of files, which transformers 5 has changed in memory alone."""
    rules: Rules = {}
    for part, mark, source in (("attention", "sa", "self_attn"), ("cross_attention", "ca", "encoder_attn")):
        for name in ("q", "k"):
            rules[f"{ours}.{part}.{name}.*"] = f"{theirs}.{mark}_{name}content_proj.*"
            rules[f"{ours}.{part}.{name}_position.*"] = f"{theirs}.{mark}_{name}pos_proj.*"
        rules[f"{ours}.{part}.v.*"] = f"{theirs}.{mark}_v_proj.*"
        rules[f"{ours}.{part}.o.*"] = f"{theirs}.{source}.out_proj.*"
        rules[f"{ours}.{part}_norm.*"] = f"{theirs}.{source}_layer_norm.*"
    return rules | {
        f"{ours}.cross_attention.q_sine.*": f"{theirs}.ca_qpos_sine_proj.*",
        f"{ours}.feed_forward.up.*": f"{theirs}.fc1.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.fc2.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.final_layer_norm.*",
    }
