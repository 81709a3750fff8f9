"""RT-DETR (Zhao et al. 2024): queries that begin as the likeliest places of an image."""

from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families._config import Config, TensorNames, shortened
from txexport.parts.inputs.resnet_levels import layers
from txexport.spec import (
    BoxesSpec,
    DeformableAttentionSpec,
    EncoderSpec,
    FusionPyramidSpec,
    HeadKind,
    HeadSpec,
    NormSpec,
    ProposalStackSpec,
    QueryBlockSpec,
    QueryLayersSpec,
    ResNetLevelsSpec,
)
from txexport.spec.resnet import STEM_STRIDE

TASKS = {"object-detection": ("RTDetrForObjectDetection",)}
NAMING = Naming()
REFUSED = {"RTDetrModel": "its queries are no result of a task; expected RTDetrForObjectDetection"}
ALIASES = {"hidden_size": "d_model", "num_attention_heads": "encoder_attention_heads"}

BATCH_NORM_EPS = 1e-5  # of the network, which has no setting for it
BACKBONE = "model.backbone.model"
BOTTLENECK, BASIC = "bottleneck", "basic"
DEFAULTS = {
    "encoder_hidden_dim": 256,
    "d_model": 256,
    "encoder_layers": 1,
    "encoder_attention_heads": 8,
    "encoder_ffn_dim": 1024,
    "decoder_layers": 6,
    "decoder_attention_heads": 8,
    "decoder_ffn_dim": 1024,
    "decoder_n_points": 4,
    "num_feature_levels": 3,
    "num_queries": 300,
    "feat_strides": [8, 16, 32],
    "encoder_in_channels": [512, 1024, 2048],
    "encode_proj_layers": [2],
    "positional_encoding_temperature": 10000,
    "hidden_expansion": 1.0,
    "layer_norm_eps": 1e-5,
    "batch_norm_eps": 1e-5,
}
NETWORK = {
    "model_type": "rt_detr_resnet",
    "embedding_size": 64,
    "hidden_sizes": [256, 512, 1024, 2048],
    "depths": [3, 4, 6, 3],
    "layer_type": BOTTLENECK,
    "hidden_act": "relu",
    "downsample_in_first_stage": False,
    "downsample_in_bottleneck": False,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    return detector(config, offset_scale=0.5)


def detector(config: Config, offset_scale: float) -> EncoderSpec:
    """The architecture; an offset of as many as there are points is `offset_scale` times a box's side."""
    config = config.with_defaults(**DEFAULTS)
    config.expect(with_box_refine=True, use_timm_backbone=False)
    inner, width = config.integer("encoder_hidden_dim"), config.integer("d_model")
    network = _network(config, inner)
    points, eps = config.integer("decoder_n_points"), config.number("batch_norm_eps")
    fields = layers_and_queries(config)
    stack = ProposalStackSpec(
        embedding=network,
        pyramid=FusionPyramidSpec(
            inner,
            int(inner * config.number("hidden_expansion")),
            config.activation("activation_function", "silu"),
            eps,
        ),
        attention=DeformableAttentionSpec(
            width, fields["objects"].num_heads, network.levels, points, offset_scale
        ),
        **fields,
    )
    boxes = BoxesSpec(stack.queries, 1, stack.box_layers, refined=True)
    head = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=stack.labels, boxes=boxes)
    return EncoderSpec(encoder=stack, head=head)


def layers_and_queries(config: Config) -> dict[str, Any]:
    """The fields of a stack's spec for its layers and queries, from config.json."""
    config.expect(normalize_before=False, eval_size=None, anchor_image_size=None, learn_initial_query=False)
    inner, width = config.integer("encoder_hidden_dim"), config.integer("d_model")
    eps = config.number("layer_norm_eps")
    return {
        "cells": QueryLayersSpec(
            config.count("encoder_layers"),
            config.integer("encoder_attention_heads"),
            config.integer("encoder_ffn_dim"),
        ),
        "cell_block": QueryBlockSpec(
            NormSpec(inner, eps), config.activation("encoder_activation_function", "gelu")
        ),
        "objects": QueryLayersSpec(
            config.count("decoder_layers"),
            config.integer("decoder_attention_heads"),
            config.integer("decoder_ffn_dim"),
        ),
        "object_block": QueryBlockSpec(
            NormSpec(width, eps), config.activation("decoder_activation_function", "relu")
        ),
        "queries": config.integer("num_queries"),
        "labels": config.labels(),
        "eps": config.number("batch_norm_eps"),
        "temperature": config.number("positional_encoding_temperature"),
    }


def _network(config: Config, width: int) -> ResNetLevelsSpec:
    """The residual network, and the maps that are read of it."""
    network = config.table("backbone_config").with_defaults(**NETWORK)
    network.expect(
        model_type="rt_detr_resnet",
        hidden_act="relu",
        downsample_in_first_stage=False,
        downsample_in_bottleneck=False,
    )
    kind = network.text("layer_type")
    if kind not in (BOTTLENECK, BASIC):
        raise UnsupportedError(
            f"{config.path}: layer_type {shortened(kind)} is not supported; expected '{BOTTLENECK}' or "
            f"'{BASIC}'"
        )
    depths, sizes = network.integers("depths"), network.integers("hidden_sizes")
    if len(depths) != len(sizes) or len(depths) > 8 or sum(depths) > config.room.count:
        raise CheckpointError(
            f"{config.path}: backbone_config has depths {shortened(depths)} and hidden_sizes "
            f"{shortened(sizes)}; expected as many of both, and as many layers as there are tensors for"
        )
    strides, levels = config.integers("feat_strides"), config.integer("num_feature_levels")
    stride = STEM_STRIDE * 2 ** (len(depths) - 1)
    last = [stride // 2**number for number in reversed(range(levels))] if levels <= len(depths) else []
    if strides != last or config.values["encode_proj_layers"] != [levels - 1]:
        raise UnsupportedError(
            f"{config.path}: num_feature_levels {levels}, feat_strides {shortened(strides)} and "
            f"encode_proj_layers {shortened(config.values['encode_proj_layers'])} are not supported; "
            "expected the last stages of the backbone, and layers over the last of them alone"
        )
    if (count := len(config.integers("encoder_in_channels"))) != levels:
        raise UnsupportedError(
            f"{config.path}: encoder_in_channels has {count} entries, but num_feature_levels is {levels}"
        )
    features = network.strings("out_features")
    expected = [f"stage{number}" for number in range(len(depths) - levels + 1, len(depths) + 1)]
    if features and features != expected:
        raise UnsupportedError(
            f"{config.path}: out_features {shortened(features)} is not supported; expected {expected}"
        )
    return ResNetLevelsSpec(
        width,
        tuple(depths),
        tuple(sizes),
        levels,
        network.integer("embedding_size"),
        kind == BOTTLENECK,
        BATCH_NORM_EPS,
        network.integer("num_channels", 3),
        (640, 640) if stride == 32 else (2 * stride, 3 * stride),
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; changes of boxes may be stored twice."""
    stack = spec.encoder
    assert isinstance(stack, ProposalStackSpec)
    last, decoder = stack.objects.num_layers - 1, "model.decoder"
    rules = _network_rules(stack.embedding)
    rules |= _pyramid_rules(stack.pyramid, stack.embedding.levels)
    for layer in range(stack.cells.num_layers):
        theirs = f"model.encoder.encoder.{0}.layers.{layer}"
        rules |= layer_rules(f"encoder.layers.{layer}", theirs)
    rules |= level_rules(stack.embedding.levels) | proposal_rules(stack.box_layers)
    for layer in range(stack.box_layers):
        for number in range(stack.objects.num_layers):
            ours = "head.box" if number == last else f"encoder.boxes.{number}.layers"
            rules |= stored_twice(f"{ours}.{layer}", f"bbox_embed.{number}.layers.{layer}")
    rules |= stored_twice("head.scores.0", f"class_embed.{last}")
    for layer in range(stack.objects.num_layers):
        ours, theirs = f"encoder.query_layers.{layer}", f"{decoder}.layers.{layer}"
        rules |= layer_rules(ours, theirs)
        for name, source in DEFORMABLE.items():
            rules[f"{ours}.cross_attention.{name}.*"] = f"{theirs}.encoder_attn.{source}.*"
        rules[f"{ours}.cross_attention_norm.*"] = f"{theirs}.encoder_attn_layer_norm.*"
    return Table(rules, NAMING, DROPPED)


DEFORMABLE = {
    "offsets": "sampling_offsets",
    "shares": "attention_weights",
    "v": "value_proj",
    "o": "output_proj",
}
# Scores of layers before the last, and of training.
DROPPED = (
    "*.num_batches_tracked",
    "*.n_points_scale",
    "model.denoising_class_embed.weight",
    "model.decoder.class_embed.*",
    "class_embed.*",
)
STATISTICS = {"weight": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}


def stored_twice(ours: str, theirs: str) -> Rules:
    """A dense layer of the decoder, which a checkpoint may store under two names."""
    return {
        f"{ours}.{name}": Take(f"model.decoder.{theirs}.{name}", also=(f"{theirs}.{name}",))
        for name in ("weight", "bias")
    }


def level_rules(levels: int) -> Rules:
    """The projections of the pyramid's maps."""
    rules: Rules = {}
    for level in range(levels):
        theirs = f"model.decoder_input_proj.{level}"
        rules |= convolution_rules(f"encoder.levels.{level}", f"{theirs}.0", f"{theirs}.1")
    return rules


def project_rules(levels: int) -> Rules:
    """The projections of the network's maps."""
    rules: Rules = {}
    for level in range(levels):
        theirs = f"model.encoder_input_proj.{level}"
        rules |= convolution_rules(f"encoder.embedding.project.{level}", f"{theirs}.0", f"{theirs}.1")
    return rules


def proposal_rules(box_layers: int) -> Rules:
    """The scores and boxes of places, and the positions of boxes."""
    rules: Rules = {
        "encoder.proposals.vector.*": "model.enc_output.0.*",
        "encoder.proposals.norm.*": "model.enc_output.1.*",
        "encoder.proposals.scores.*": "model.enc_score_head.*",
    }
    for layer in range(2):
        theirs = f"model.decoder.query_pos_head.layers.{layer}"
        rules[f"encoder.query_position.layers.{layer}.*"] = f"{theirs}.*"
    for layer in range(box_layers):
        rules[f"encoder.proposals.box.{layer}.*"] = f"model.enc_bbox_head.layers.{layer}.*"
    return rules


def _network_rules(embedding: ResNetLevelsSpec) -> Rules:
    """The residual network, and the projections of its maps."""
    rules: Rules = {}
    for number in range(3):
        rules |= normalised(f"encoder.embedding.stem.{number}", f"{BACKBONE}.embedder.embedder.{number}")
    positions = [(stage, layer) for stage, depth in enumerate(embedding.depths) for layer in range(depth)]
    for number, ((stage, layer), one) in enumerate(zip(positions, layers(embedding), strict=True)):
        ours, theirs = (
            f"encoder.embedding.layers.{number}",
            f"{BACKBONE}.encoder.stages.{stage}.layers.{layer}",
        )
        for part in range(3 if embedding.bottleneck else 2):
            rules |= normalised(f"{ours}.parts.{part}", f"{theirs}.layer.{part}")
        pooled = one.sizes[-1]
        rules |= normalised(f"{ours}.shortcut", f"{theirs}.shortcut.1" if pooled else f"{theirs}.shortcut")
    return rules | project_rules(embedding.levels)


def _pyramid_rules(spec: FusionPyramidSpec, levels: int) -> Rules:
    """The pyramid's convolutions."""
    rules: Rules = {}
    parts = {"through": "conv1", "beside": "conv2"} | (
        {"project": "conv3"} if spec.inner != spec.size else {}
    )
    for number in range(levels - 1):
        for ours, theirs in (("laterals", "lateral_convs"), ("strides", "downsample_convs")):
            place = f"model.encoder.{theirs}.{number}"
            rules |= convolution_rules(f"encoder.pyramid.{ours}.{number}", f"{place}.conv", f"{place}.norm")
        for ours, theirs in (("downward", "fpn_blocks"), ("upward", "pan_blocks")):
            block, place = f"encoder.pyramid.{ours}.{number}", f"model.encoder.{theirs}.{number}"
            joints = {f"{block}.{name}": f"{place}.{source}" for name, source in parts.items()}
            for pair in range(spec.blocks):
                joints[f"{block}.pairs.{pair}.wide"] = f"{place}.bottlenecks.{pair}.conv1"
                joints[f"{block}.pairs.{pair}.narrow"] = f"{place}.bottlenecks.{pair}.conv2"
            for name, source in joints.items():
                rules |= convolution_rules(name, f"{source}.conv", f"{source}.norm")
    return rules


def normalised(ours: str, theirs: str) -> Rules:
    """A convolution of the network and its norm."""
    return convolution_rules(ours, f"{theirs}.convolution", f"{theirs}.normalization")


def convolution_rules(ours: str, convolution: str, norm: str) -> Rules:
    """A convolution and its norm."""
    rules: Rules = {f"{ours}.convolution.weight": f"{convolution}.weight"}
    return rules | {f"{ours}.norm.{name}": f"{norm}.{stored}" for name, stored in STATISTICS.items()}


def layer_rules(ours: str, theirs: str) -> Rules:
    """Attention of a layer to itself, and its network."""
    rules: Rules = {f"{ours}.attention.{name}.*": f"{theirs}.self_attn.{name}_proj.*" for name in "qkv"}
    return rules | {
        f"{ours}.attention.o.*": f"{theirs}.self_attn.out_proj.*",
        f"{ours}.attention_norm.*": f"{theirs}.self_attn_layer_norm.*",
        f"{ours}.feed_forward.up.*": f"{theirs}.fc1.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.fc2.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.final_layer_norm.*",
    }
