"""LW-DETR (Chen et al. 2024): a ViT with window attention; learned queries over the likeliest places."""

import math

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take, zeros
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import _windowed, vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    EncoderSpec,
    MixedStackSpec,
    ProjectorSpec,
    WindowedMapsSpec,
)
from txexport.spec.windowed_maps import NARROWED, SCALES

TASKS = {"object-detection": ("LwDetrForObjectDetection",)}
NAMING = Naming()
REFUSED = {"LwDetrModel": "its queries are no result of a task; expected LwDetrForObjectDetection"}
ALIASES: dict[str, str] = {}

BACKBONE, PROJECTOR, DECODER = "model.backbone.backbone", "model.backbone.projector", "model.decoder"
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
    config = config.with_defaults(**_windowed.DEFAULTS)
    scales = tuple(config.numbers("projector_scale_factors"))
    if not scales or len(scales) > 8 or any(scale not in SCALES for scale in scales):
        raise UnsupportedError(
            f"{config.path}: projector_scale_factors {shortened(scales)} are not supported; expected one to "
            f"eight of {', '.join(map(str, SCALES))}"
        )
    config.expect(num_feature_levels=len(scales), projector_out_channels=config.values["d_model"])
    projector = _windowed.projector_spec(config, scales, batch_norm_eps=config.number("batch_norm_eps"))
    return _windowed.detector(config, _network(config, projector))


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
    read = _windowed.read_layers(network)
    within = _windowed.whole_numbers(network, "window_block_indices")
    return _windowed.windowed_maps(
        network,
        projector,
        side=side,
        pretrained=pretrained,
        read=read,
        everywhere=[layer for layer in range(read[-1]) if layer not in within],
    )


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
        rules |= _level_rules(f"encoder.embedding.levels.{level}", theirs, embedding.projector)
        narrow = scale == 2.0 and patches.hidden_size > NARROWED
        for number in range(len(embedding.read)):
            ours = f"encoder.embedding.levels.{level}.resize.{number}"
            layers = f"{theirs}.sampling_layers.{number}.layers"
            if scale == 2.0:
                rules[f"{ours}.finer.*"] = f"{layers}.{int(narrow)}.*"
            if narrow or scale == 0.5:
                rules |= _convolution(f"{ours}.{'narrow' if narrow else 'coarser'}", f"{layers}.0")
    return Table(rules | _detector_rules(stack), NAMING, ("*.num_batches_tracked", *DROPPED))


DROPPED = (  # of groups of queries for training, and layers that nothing reads
    "model.enc_out*",
    f"{BACKBONE}.encoder.layer.*",
)


def _level_rules(ours: str, theirs: str, projector: ProjectorSpec) -> Rules:
    """The projector to a level, after maps are resized."""
    rules: Rules = {f"{ours}.norm.*": f"{theirs}.layer_norm.*"}
    for name, other in (("first", "conv1"), ("last", "conv2")):
        rules |= _convolution(f"{ours}.{name}", f"{theirs}.projector_layer.{other}")
    for pair in range(projector.blocks):
        for number in range(2):
            source = f"{theirs}.projector_layer.bottlenecks.{pair}.conv{number + 1}"
            rules |= _convolution(f"{ours}.pairs.{pair}.{number}", source)
    return rules


def _convolution(ours: str, theirs: str) -> Rules:
    """A convolution and its batch norm."""
    stored = {"weight": "weight", "bias": "bias", "mean": "running_mean", "variance": "running_var"}
    rules: Rules = {f"{ours}.norm.{name}": f"{theirs}.norm.{other}" for name, other in stored.items()}
    return {f"{ours}.convolution.weight": f"{theirs}.conv.weight"} | rules


def _detector_rules(stack: MixedStackSpec) -> Rules:
    """Queries, the layers over them, and the head, of the first group of queries."""
    sources = {"queries": "model.query_feat", "boxes": "model.reference_point_embed", "norm": "layernorm"}
    rules = _windowed.query_rules(stack, "model", DECODER, **sources)
    ours, theirs = "encoder.query_layers.{i}", f"{DECODER}.layers.{{i}}"
    for name in "qkvo":
        rules[f"{ours}.attention.{name}.*"] = f"{theirs}.self_attn.{name}_proj.*"
    rules |= {
        f"{ours}.attention_norm.*": f"{theirs}.self_attn_layer_norm.*",
        f"{ours}.cross_attention_norm.*": f"{theirs}.cross_attn_layer_norm.*",
        f"{ours}.feed_forward.up.*": f"{theirs}.mlp.fc1.*",
        f"{ours}.feed_forward.down.*": f"{theirs}.mlp.fc2.*",
        f"{ours}.feed_forward_norm.*": f"{theirs}.layer_norm.*",
    }
    return rules
