"""YOLOS (Fang et al. 2021): a ViT that reads detection tokens behind the patches."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import vit
from txexport.families._config import Config, TensorNames
from txexport.spec import BoxesSpec, EncoderSpec, HeadKind, HeadSpec, PatchSpec

TASKS = {"object-detection": ("YolosForObjectDetection",)}

NAMING = Naming("vit.")

REFUSED = {"YolosModel": "its pooled vector is untrained; expected YolosForObjectDetection"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; positions are always interpolated."""
    config = config.with_defaults(image_size=[512, 864])
    base = vit.image_spec(config, task, names, tokens=1, any_size=True)
    assert isinstance(base.encoder.embedding, PatchSpec)
    patches = replace(base.encoder.embedding, detection_tokens=config.integer("num_detection_tokens", 100))
    between = config.flag("use_mid_position_embeddings", True)
    height, width = patches.image_size
    if between and height * width // patches.patch_size**2 != patches.patches:
        raise UnsupportedError(
            f"{config.path}: use_mid_position_embeddings is true and image_size {height} x {width} is no "
            f"multiple of patch_size {patches.patch_size}, so its positions fit no grid"
        )
    head = HeadSpec(
        HeadKind.BOXES,
        tied=False,
        bias=True,
        labels=config.labels() + 1,
        boxes=BoxesSpec(patches.detection_tokens, 3, 3),
    )
    stack = replace(base.encoder, embedding=patches, layer_positions=between)
    return EncoderSpec(encoder=stack, head=head)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; the layers' positions are stored in one tensor."""
    rules: Rules = vit.stack_rules() | {
        "encoder.embedding.detection.weight": Take("embeddings.detection_tokens", leading_axis=True),
        "head.scores.0.*": "class_labels_classifier.layers.0.*",
        "head.scores.1.*": "class_labels_classifier.layers.1.*",
        "head.scores.2.*": "class_labels_classifier.layers.2.*",
        "head.box.0.*": "bbox_predictor.layers.0.*",
        "head.box.1.*": "bbox_predictor.layers.1.*",
        "head.box.2.*": "bbox_predictor.layers.2.*",
    }
    between = spec.encoder.num_layers - 1
    for layer in range(between):
        rules[f"encoder.layer_positions.{layer}.weight"] = Take(
            "encoder.mid_position_embeddings", leading_axis=True, expert=layer, experts=between
        )
    return Table(rules, NAMING)
