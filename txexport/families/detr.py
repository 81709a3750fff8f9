"""DETR (Carion et al. 2020): queries read the map of a residual network."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    BoxesSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    NormSpec,
    ObjectMasksSpec,
    QueryLayersSpec,
    QueryStackSpec,
    ResNetSpec,
)
from txexport.spec.resnet import STEM_STRIDE

TASKS = {
    "object-detection": ("DetrForObjectDetection",),
    "image-segmentation": ("DetrForSegmentation",),
}
NAMING = Naming("detr.")
REFUSED = {
    "DetrModel": "its queries are no result of a task; expected DetrForObjectDetection",
}
ALIASES = {
    "hidden_size": "d_model",
    "num_attention_heads": "encoder_attention_heads",
    "num_hidden_layers": "encoder_layers",
}

EPS = 1e-5
STAGES = 4  # of a backbone whose maps masks are made of
MODEL = "model.backbone.conv_encoder.model"  # of the names of the backbone's tensors
BOTTLENECK, BASIC = "bottleneck", "basic"
# Backbones of timm: depths and kind of layers.
OF_TIMM = {
    "resnet18": ([2, 2, 2, 2], BASIC),
    "resnet34": ([3, 4, 6, 3], BASIC),
    "resnet50": ([3, 4, 6, 3], BOTTLENECK),
    "resnet101": ([3, 4, 23, 3], BOTTLENECK),
}
WIDTHS = {BASIC: [64, 128, 256, 512], BOTTLENECK: [256, 512, 1024, 2048]}
RESNET = {
    "embedding_size": 64,
    "hidden_sizes": WIDTHS[BOTTLENECK],
    "depths": OF_TIMM["resnet50"][0],
    "layer_type": BOTTLENECK,
    "hidden_act": "relu",
    "downsample_in_first_stage": False,
    "downsample_in_bottleneck": False,
}
# Parts of the names of timm's tensors, and of those of transformers' own backbone.
LIBRARY_NAMES = {
    f"{MODEL}.conv1.": (f"{MODEL}.embedder.embedder.convolution.",),
    f"{MODEL}.bn1.": (f"{MODEL}.embedder.embedder.normalization.",),
    **{f"{MODEL}.layer{n + 1}.": (f"{MODEL}.encoder.stages.{n}.layers.",) for n in range(4)},
    **{f".conv{n + 1}.": (f".layer.{n}.convolution.",) for n in range(3)},
    **{f".bn{n + 1}.": (f".layer.{n}.normalization.",) for n in range(3)},
    ".downsample.0.": (".shortcut.convolution.",),
    ".downsample.1.": (".shortcut.normalization.",),
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    model = detector(config, pre_norm=False)
    if task == "object-detection":
        if "mask_head.lay1.weight" in names:
            raise UnsupportedError(
                f"{config.path}: the tensors are those of DetrForSegmentation, which the library cannot load "
                "as a detector; expected --task image-segmentation, whose graph gives boxes too"
            )
        return model
    stack = model.encoder
    assert isinstance(stack, QueryStackSpec)
    stages = len(stack.embedding.sizes)
    features = config.table("backbone_config").strings("out_features")
    if stages != STAGES or (timm_backbone(config) is None and len(features) != STAGES):
        raise UnsupportedError(
            f"{config.path}: a backbone of {stages} stages with out_features {shortened(features)} is not "
            f"supported; expected {STAGES} stages, all of them in out_features"
        )
    queries, heads, sizes = stack.queries, stack.cells.num_heads, stack.embedding.sizes[:-1]
    masks = ObjectMasksSpec(queries, stack.hidden_size, heads, sizes, stack.activation, EPS)
    head = HeadSpec(
        HeadKind.OBJECT_MASKS, tied=False, bias=True, labels=model.head.labels, object_masks=masks
    )
    return replace(model, head=head)


def detector(config: Config, pre_norm: bool) -> EncoderSpec:
    """Queries over a residual network; norms precede sublayers, or follow them."""
    config = config.with_defaults(d_model=256)
    # With auxiliary_loss, transformers passes the norm of a layer's output on to the next layer.
    config.expect(position_embedding_type="sine", dilation=False, auxiliary_loss=False)
    width = config.integer("d_model")
    config.check_width("d_model", width)
    stack = QueryStackSpec(
        embedding=backbone(config, width),
        cells=layers(config, "encoder"),
        objects=layers(config, "decoder"),
        activation=config.activation("activation_function", "relu"),
        norm=NormSpec(width, EPS),
        queries=config.integer("num_queries", 100),
        pre_norm=pre_norm,
    )
    boxes = BoxesSpec(stack.queries, 1, 3)
    head = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=config.labels() + 1, boxes=boxes)
    return EncoderSpec(encoder=stack, head=head)


def layers(config: Config, part: str) -> QueryLayersSpec:
    """The layers of the encoder or of the decoder."""
    defaults = {f"{part}_layers": 6, f"{part}_attention_heads": 8, f"{part}_ffn_dim": 2048}
    config = config.with_defaults(**defaults)
    layers = config.count(f"{part}_layers")
    return QueryLayersSpec(
        layers, config.integer(f"{part}_attention_heads"), config.integer(f"{part}_ffn_dim")
    )


def backbone(config: Config, width: int) -> ResNetSpec:
    """The residual network, of transformers or of timm."""
    network = config.table("backbone_config")
    if timm_backbone(config) is not None:
        network = network.replaced(**_of_timm(config))
    network = network.with_defaults(model_type="resnet", num_channels=config.integer("num_channels", 3))
    spec = resnet(network, width)
    last = f"stage{len(spec.depths)}"
    features = network.strings("out_features")
    if features and features[-1] != last:
        raise UnsupportedError(
            f"{config.path}: out_features {shortened(features)} is not supported; expected '{last}' last"
        )
    return spec


def resnet(config: Config, width: int) -> ResNetSpec:
    """The residual network that a configuration of transformers' own describes, projected to `width`."""
    config = config.with_defaults(**RESNET)
    config.expect(
        model_type="resnet",
        hidden_act="relu",
        downsample_in_first_stage=False,
        downsample_in_bottleneck=False,
    )
    kind = config.text("layer_type")
    if kind not in (BOTTLENECK, BASIC):
        raise UnsupportedError(
            f"{config.path}: layer_type {shortened(kind)} is not supported; expected '{BOTTLENECK}' or "
            f"'{BASIC}'"
        )
    depths, sizes = config.integers("depths"), config.integers("hidden_sizes")
    if len(depths) != len(sizes) or len(depths) > 8 or sum(depths) > config.room.count:
        raise CheckpointError(
            f"{config.path}: depths {shortened(depths)} and hidden_sizes {shortened(sizes)}; expected as "
            "many of both, and as many layers as there are tensors for"
        )
    stride = STEM_STRIDE * 2 ** (len(depths) - 1)
    sides = (800, 1066) if stride == 32 else (2 * stride, 3 * stride)
    return ResNetSpec(
        width,
        tuple(depths),
        tuple(sizes),
        config.integer("embedding_size"),
        kind == BOTTLENECK,
        EPS,
        config.integer("num_channels", 3),
        sides,
    )


def timm_backbone(config: Config) -> str | None:
    """The name of a backbone of timm; None for one of transformers."""
    values = config.table("backbone_config").values
    if values.get("model_type") == "timm_backbone":
        return str(values.get("backbone") or "resnet50")
    timm = config.values.get("use_timm_backbone", not values)
    return str(config.values.get("backbone") or "resnet50") if timm and not values else None


def _of_timm(config: Config) -> dict[str, Any]:
    """The values of transformers' configuration of a backbone of timm."""
    name = timm_backbone(config)
    if name not in OF_TIMM:
        raise UnsupportedError(
            f"{config.path}: backbone {shortened(name)} is not supported; expected {', '.join(OF_TIMM)}"
        )
    depths, kind = OF_TIMM[name]
    return RESNET | {
        "model_type": "resnet",
        "depths": depths,
        "layer_type": kind,
        "hidden_sizes": WIDTHS[kind],
        "out_features": [f"stage{number}" for number in range(1, STAGES + 1)],
        "out_indices": [*range(1, STAGES + 1)],
    }


def spelt_out(config: Config) -> tuple[Mapping[str, Any], str] | None:
    """config.json with a backbone of transformers in place of timm's, which needs another library."""
    if timm_backbone(config) is None:
        return None
    values = {name: value for name, value in config.values.items() if name not in TIMM}
    values |= {"use_timm_backbone": False, "backbone_config": _of_timm(config), "backbone": None}
    note = "its backbone is one of timm's; the reference reads its weights as transformers' own"
    return values, note


TIMM = ("backbone", "backbone_kwargs", "use_pretrained_backbone", "use_timm_backbone", "backbone_config")


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers, whose backbone may have timm's names."""
    stack = spec.encoder
    assert isinstance(stack, QueryStackSpec)
    rules: Rules = {
        "encoder.embedding.project.*": "model.input_projection.*",
        "encoder.queries.weight": "model.query_position_embeddings.weight",
        "encoder.query_norm.*": "model.decoder.layernorm.*",
        "encoder.layers_norm.*": "model.encoder.layernorm.*",
        **_head_rules(spec.head),
    }
    rules |= backbone_rules(stack.embedding)
    for ours, theirs, part in (
        ("layers", "encoder", stack.cells),
        ("query_layers", "decoder", stack.objects),
    ):
        for layer in range(part.num_layers):
            rules |= layer_rules(f"encoder.{ours}.{layer}", f"model.{theirs}.layers.{layer}")
    return Table(rules, NAMING, ("*.num_batches_tracked", f"{MODEL}.fc.*"))


def _head_rules(head: HeadSpec) -> Rules:
    """Scores and boxes, and the convolutions of masks by their names of old or of transformers 5."""
    rules: Rules = {f"head.box.{layer}.*": f"bbox_predictor.layers.{layer}.*" for layer in range(3)}
    if head.object_masks is None:
        return rules | {"head.scores.0.*": "class_labels_classifier.*"}
    rules |= {
        "head.classes.*": "class_labels_classifier.*",
        "head.attention.q.*": "bbox_attention.q_linear.*",
        "head.attention.k.*": "bbox_attention.k_linear.*",
        "head.join.*": "mask_head.lay1.*",
        "head.join_norm.*": "mask_head.gn1.*",
        "head.reduce.convolution.*": "mask_head.lay2.*",
        "head.reduce.norm.*": "mask_head.gn2.*",
        "head.project.*": "mask_head.out_lay.*",
    }
    for number in range(len(head.object_masks.sizes)):
        rules |= {
            f"head.sides.{number}.*": f"mask_head.adapter{number + 1}.*",
            f"head.convolutions.{number}.convolution.*": f"mask_head.lay{number + 3}.*",
            f"head.convolutions.{number}.norm.*": f"mask_head.gn{number + 3}.*",
        }
    return rules


def backbone_rules(embedding: ResNetSpec, model: str = MODEL) -> Rules:
    """The residual network, by transformers' names or by timm's."""
    stem = f"{model}.embedder.embedder", f"{model}.conv1", f"{model}.bn1"
    rules, number = _convolution_rules("stem", *stem), 0
    for stage, depth in enumerate(embedding.depths):
        for layer in range(depth):
            library = f"{model}.encoder.stages.{stage}.layers.{layer}"
            timm = f"{model}.layer{stage + 1}.{layer}"
            for part in range(3 if embedding.bottleneck else 2):
                theirs = f"{library}.layer.{part}", f"{timm}.conv{part + 1}", f"{timm}.bn{part + 1}"
                rules |= _convolution_rules(f"layers.{number}.parts.{part}", *theirs)
            theirs = f"{library}.shortcut", f"{timm}.downsample.0", f"{timm}.downsample.1"
            rules |= _convolution_rules(f"layers.{number}.shortcut", *theirs)
            number += 1
    return rules


def _convolution_rules(ours: str, library: str, convolution: str, norm: str) -> Rules:
    """A convolution and its norm, by transformers' names or by timm's."""
    place, weight = f"encoder.embedding.{ours}", f"{convolution}.weight"
    rules: Rules = {f"{place}.convolution.weight": Take(f"{library}.convolution.weight", also=(weight,))}
    for name, stored in STATISTICS.items():
        source = Take(f"{library}.normalization.{stored}", also=(f"{norm}.{stored}",))
        rules[f"{place}.norm.{name}"] = source
    return rules


STATISTICS = {"weight": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}


def layer_rules(ours: str, theirs: str) -> Rules:
    """One layer; names of cross-attention are read by the decoder's alone."""
    rules: Rules = {}
    for part, source in (("attention", "self_attn"), ("cross_attention", "encoder_attn")):
        for name in ("q", "k", "v"):
            rules[f"{ours}.{part}.{name}.*"] = f"{theirs}.{source}.{name}_proj.*"
        rules[f"{ours}.{part}.o.*"] = f"{theirs}.{source}.out_proj.*"
        rules[f"{ours}.{part}_norm.*"] = f"{theirs}.{source}_layer_norm.*"
    return rules | {
        f"{ours}.feed_forward.up.*": f"{theirs}.fc1.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.fc2.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.final_layer_norm.*",
    }
