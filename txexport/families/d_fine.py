"""D-FINE (Peng et al. 2024): RT-DETR over an HGNetV2, with a distribution for each edge of a box."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import rt_detr
from txexport.families._config import Config, TensorNames, shortened
from txexport.parts.inputs.hgnet_levels import stages
from txexport.spec import (
    AggregationPyramidSpec,
    BoxesSpec,
    DeformableAttentionSpec,
    DistributionStackSpec,
    EdgesSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    HGNetLevelsSpec,
    HGNetStageSpec,
    NormSpec,
    QualitySpec,
)
from txexport.spec.enums import Activation

TASKS = {"object-detection": ("DFineForObjectDetection",)}
NAMING = Naming()
REFUSED = {"DFineModel": "its queries are no result of a task; expected DFineForObjectDetection"}
ALIASES = rt_detr.ALIASES

EPS = 1e-5  # of the backbone's batch norms and of gates, which have no setting for it
DEFAULTS = rt_detr.DEFAULTS | {
    "decoder_in_channels": [256, 256, 256],
    "depth_mult": 1.0,
    "max_num_bins": 32,
    "top_prob_values": 4,
    "lqe_hidden_dim": 64,
    "lqe_layers": 2,
    "decoder_offset_scale": 0.5,
    "eval_idx": -1,
}
NETWORK = {
    "model_type": "hgnet_v2",
    "stem_channels": [3, 32, 48],
    "stem_strides": [2, 1, 1, 2, 1],
    "stage_in_channels": [48, 128, 512, 1024],
    "stage_mid_channels": [48, 96, 192, 384],
    "stage_out_channels": [128, 512, 1024, 2048],
    "stage_num_blocks": [1, 1, 3, 1],
    "stage_downsample": [False, True, True, True],
    "stage_downsample_strides": [2, 2, 2, 2],
    "stage_light_block": [False, False, True, True],
    "stage_kernel_size": [3, 3, 5, 5],
    "stage_numb_of_layers": [6, 6, 6, 6],
    "depths": [3, 4, 6, 3],
}
OF_STAGES = (
    "stage_in_channels",
    "stage_mid_channels",
    "stage_out_channels",
    "stage_num_blocks",
    "stage_numb_of_layers",
    "stage_kernel_size",
)
FLAGS = ("stage_light_block", "stage_downsample")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(**DEFAULTS)
    config.expect(activation_function="silu", decoder_method="default")
    inner, width = config.integer("encoder_hidden_dim"), config.integer("d_model")
    network, edges = _network(config, inner), EdgesSpec(config.integer("max_num_bins"))
    blocks = round(3 * config.number("depth_mult"))
    config.check_count("three times 'depth_mult'", blocks)
    fields = rt_detr.layers_and_queries(config)
    layers, heads = fields["objects"].num_layers, fields["objects"].num_heads
    config.expect(eval_idx=-1 if config.values["eval_idx"] == -1 else layers - 1)
    stack = DistributionStackSpec(
        embedding=network,
        pyramid=AggregationPyramidSpec(
            inner,
            round(config.number("hidden_expansion") * inner // 2),
            Activation.SILU,
            fields["eps"],
            blocks,
        ),
        gate_norm=NormSpec(width, EPS),
        attention=_attention(config, width, heads, network.levels),
        edges=edges,
        **fields,
    )
    quality = QualitySpec(
        edges,
        config.integer("top_prob_values"),
        config.count("lqe_layers"),
        config.integer("lqe_hidden_dim"),
    )
    boxes = BoxesSpec(stack.queries, 1, stack.box_layers, refined=True, quality=quality)
    head = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=stack.labels, boxes=boxes)
    return EncoderSpec(encoder=stack, head=head)


def _attention(config: Config, width: int, heads: int, levels: int) -> DeformableAttentionSpec:
    """That of queries, to one number of points of each level or to several."""
    if isinstance(config.values["decoder_n_points"], list):
        counts = tuple(config.integers("decoder_n_points"))
    else:
        counts = (config.integer("decoder_n_points"),) * levels
    if len(counts) != levels:
        raise CheckpointError(
            f"{config.path}: decoder_n_points {shortened(counts)}, expected one for each of {levels} levels"
        )
    return DeformableAttentionSpec(
        width,
        heads,
        levels,
        max(counts),
        config.number("decoder_offset_scale"),
        counts=counts,
        projected=False,
    )


def _network(config: Config, width: int) -> HGNetLevelsSpec:
    """The backbone, and the maps that are read of it."""
    network = config.table("backbone_config").with_defaults(**NETWORK)
    network.expect(model_type="hgnet_v2", hidden_act="relu", stem_strides=NETWORK["stem_strides"])
    rows = network.rows(*OF_STAGES, of="stage")
    flags = [network.values[name] for name in FLAGS]
    number, inputs = len(rows), [row[0] for row in rows]
    if any(len(values) != number for values in flags) or number > 8:
        raise CheckpointError(
            f"{config.path}: {' and '.join(FLAGS)} are {shortened(flags)}, expected a flag for each of "
            f"{number} stages, and 8 stages at most"
        )
    if sum(blocks * layers for _, _, _, blocks, layers, _ in rows) > config.room.count:
        raise CheckpointError(
            f"{config.path}: backbone_config has stages of {shortened(rows)}, expected as many layers as "
            "there are tensors for"
        )
    network.expect(stage_downsample_strides=[2] * number)
    stem, levels = network.integers("stem_channels"), config.integer("num_feature_levels")
    if len(stem) != 3 or inputs != [stem[2], *(row[2] for row in rows[:-1])]:
        raise CheckpointError(
            f"{config.path}: stem_channels {shortened(stem)} and stage_in_channels {shortened(inputs)}; "
            "expected the channels of what is before each stage"
        )
    parts = tuple(
        HGNetStageSpec(inner, size, blocks, layers, kernel, bool(light), bool(halved))
        for (_, inner, size, blocks, layers, kernel), light, halved in zip(rows, *flags, strict=True)
    )
    _check_levels(config, network, levels, number, width)
    return HGNetLevelsSpec(
        width,
        parts,
        levels,
        stem[1],
        stem[2],
        network.flag("use_learnable_affine_block", False),
        EPS,
        network.integer("num_channels", 3),
        _image_size(parts),
    )


def _image_size(parts: tuple[HGNetStageSpec, ...]) -> tuple[int, int]:
    """Height and width of reports and cases: those of published models, or small ones of small models."""
    stride = 4 * 2 ** sum(part.halved for part in parts)
    return (640, 640) if stride == 32 else (2 * stride, 3 * stride)


def _check_levels(config: Config, network: Config, levels: int, stages: int, width: int) -> None:
    """Raise where others than the last stages are read, or maps have other channels."""
    if not 0 < levels <= min(stages, 4) or config.values["encode_proj_layers"] != [levels - 1]:
        raise UnsupportedError(
            f"{config.path}: num_feature_levels {levels} and encode_proj_layers "
            f"{shortened(config.values['encode_proj_layers'])} are not supported; expected the last "
            "stages of the backbone, at most four, and layers over the last of them alone"
        )
    inputs, outputs = (config.integers(f"{part}_in_channels") for part in ("encoder", "decoder"))
    if len(inputs) != levels or outputs != [width] * levels:
        raise UnsupportedError(
            f"{config.path}: encoder_in_channels has {len(inputs)} entries and decoder_in_channels is "
            f"{shortened(outputs)}; expected {levels} entries, and {[width] * levels}"
        )
    indices, features = network.integers("out_indices"), network.strings("out_features")
    numbers = list(range(stages - levels + 1, stages + 1))
    expected = [f"stage{number}" for number in numbers]
    if (features and features != expected) or (indices and indices != numbers):
        raise UnsupportedError(
            f"{config.path}: out_features {shortened(features)} and out_indices {shortened(indices)} are not "
            f"supported; expected {expected} and {numbers}"
        )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; changes of boxes may be stored twice."""
    stack = spec.encoder
    assert isinstance(stack, DistributionStackSpec)
    assert spec.head.boxes is not None
    assert spec.head.boxes.quality is not None
    last, decoder = stack.objects.num_layers - 1, "model.decoder"
    rules = _network_rules(stack.embedding)
    rules |= _pyramid_rules(stack.pyramid, stack.embedding.levels)
    for layer in range(stack.cells.num_layers):
        rules |= rt_detr.layer_rules(f"encoder.layers.{layer}", f"model.encoder.encoder.0.layers.{layer}")
    if stack.embedding.hidden_size != stack.hidden_size:
        rules |= rt_detr.level_rules(stack.embedding.levels)
    rules |= rt_detr.proposal_rules(stack.box_layers)
    for layer in range(stack.box_layers):
        rules[f"encoder.first_box.layers.{layer}.*"] = f"{decoder}.pre_bbox_head.layers.{layer}.*"
        for number in range(last + 1):
            ours = f"encoder.edges.{number}.layers.{layer}"
            rules |= rt_detr.stored_twice(ours, f"bbox_embed.{number}.layers.{layer}")
    rules |= rt_detr.stored_twice("head.scores.0", f"class_embed.{last}")
    for layer in range(spec.head.boxes.quality.layers):
        rules[f"head.quality.{layer}.*"] = f"{decoder}.lqe_layers.{last}.reg_conf.layers.{layer}.*"
    for layer in range(last + 1):
        ours, theirs = f"encoder.query_layers.{layer}", f"{decoder}.layers.{layer}"
        rules |= rt_detr.layer_rules(ours, theirs)
        for name in ("offsets", "shares"):
            rules[f"{ours}.cross_attention.{name}.*"] = f"{theirs}.encoder_attn.{rt_detr.DEFORMABLE[name]}.*"
        rules[f"{ours}.cross_attention.factors"] = f"{theirs}.encoder_attn.num_points_scale"
        rules[f"{ours}.gate.gates.*"] = f"{theirs}.gateway.gate.*"
        rules[f"{ours}.gate.norm.*"] = f"{theirs}.gateway.norm.*"
    rules |= {"encoder.boxes.scale": f"{decoder}.reg_scale", "encoder.boxes.reach": f"{decoder}.up"}
    return Table(rules, NAMING, (*rt_detr.DROPPED, "model.decoder.lqe_layers.*"))


STEM = {"first": "stem1", "narrow": "stem2a", "wide": "stem2b", "joined": "stem3", "last": "stem4"}


def _network_rules(embedding: HGNetLevelsSpec) -> Rules:
    """The backbone, and the projections of its maps."""
    rules, number = Rules(), 0
    for name, theirs in STEM.items():
        place = f"{rt_detr.BACKBONE}.embedder.{theirs}"
        rules |= _convolution_rules(f"encoder.embedding.stem.{name}", place, embedding.affine)
    for part, (_, stage) in enumerate(stages(embedding)):
        place = f"{rt_detr.BACKBONE}.encoder.stages.{part}"
        if stage.halved:
            rules |= rt_detr.normalised(f"encoder.embedding.halves.{part}", f"{place}.downsample")
        for block in range(stage.blocks):
            ours, theirs = f"encoder.embedding.blocks.{number}", f"{place}.blocks.{block}"
            for layer in range(stage.layers):
                source = f"{theirs}.layers.{layer}"
                if stage.light:
                    rules |= rt_detr.normalised(f"{ours}.layers.{layer}.point", f"{source}.conv1")
                    source = f"{source}.conv2"
                rules |= _convolution_rules(f"{ours}.layers.{layer}", source, embedding.affine)
            for index, name in enumerate(("squeeze", "excite")):
                source = f"{theirs}.aggregation.{index}"
                rules |= _convolution_rules(f"{ours}.{name}", source, embedding.affine)
            number += 1
    return rules | rt_detr.project_rules(embedding.levels)


def _convolution_rules(ours: str, theirs: str, affine: bool) -> Rules:
    """A convolution and its norm, and a factor and an addend."""
    rules = rt_detr.normalised(f"{ours}.part", theirs)
    moved: Rules = {
        f"{ours}.affine.weight": f"{theirs}.lab.scale",
        f"{ours}.affine.bias": f"{theirs}.lab.bias",
    }
    return rules | moved if affine else rules


def _pyramid_rules(spec: AggregationPyramidSpec, levels: int) -> Rules:
    """The pyramid's convolutions."""
    parts = {"both": "conv1", "wide.0": "conv2", "wide.1": "conv3", "project": "conv4"}
    for stage in range(2):
        ours, theirs = f"stages.{stage}", f"csp_rep{stage + 1}"
        parts |= {f"{ours}.through": f"{theirs}.conv1", f"{ours}.beside": f"{theirs}.conv2"}
        for pair in range(spec.blocks):
            parts[f"{ours}.pairs.{pair}.wide"] = f"{theirs}.bottlenecks.{pair}.conv1"
            parts[f"{ours}.pairs.{pair}.narrow"] = f"{theirs}.bottlenecks.{pair}.conv2"
    rules: Rules = {}
    for number in range(levels - 1):
        ours, theirs = "encoder.pyramid", "model.encoder"
        sources = {
            f"{ours}.laterals.{number}": f"{theirs}.lateral_convs.{number}",
            f"{ours}.strides.{number}.point": f"{theirs}.downsample_convs.{number}.conv1",
            f"{ours}.strides.{number}.each": f"{theirs}.downsample_convs.{number}.conv2",
        }
        for name, other in (("downward", "fpn_blocks"), ("upward", "pan_blocks")):
            for part, source in parts.items():
                sources[f"{ours}.{name}.{number}.{part}"] = f"{theirs}.{other}.{number}.{source}"
        for name, source in sources.items():
            rules |= rt_detr.convolution_rules(name, f"{source}.conv", f"{source}.norm")
    return rules
