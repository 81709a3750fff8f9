"""Depth Anything (Yang et al. 2024): depth from the states of DINOv2's layers."""

from txexport.checkpoints.weight_map import Naming, Rules, Table, taken
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import dinov2, vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import DepthSpec, EncoderSpec, FeatureFusionSpec, FeatureMapSpec, HeadKind, HeadSpec

FACTORS = [4, 2, 1, 0.5]
TASKS = {"depth-estimation": ("DepthAnythingForDepthEstimation",)}
NAMING = Naming()

BACKBONE = {
    "model_type": "dinov2",
    "image_size": 518,
    "hidden_size": 384,
    "num_attention_heads": 6,
    "num_hidden_layers": 12,
    "out_indices": [9, 10, 11, 12],
    "reshape_hidden_states": False,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; positions are always interpolated."""
    config = config.with_defaults(patch_size=14, reassemble_factors=FACTORS)
    config = config.with_defaults(neck_hidden_sizes=[48, 96, 192, 384])
    config.expect(head_in_index=-1, use_timm_backbone=False)
    backbone = _backbone(config)
    stack = dinov2.spec(backbone, "image-feature-extraction", names).encoder
    backbone.expect(patch_size=vit.patch_size(config))
    config.expect(reassemble_hidden_size=stack.hidden_size)
    kind = config.text("depth_estimation_type", "relative")
    if kind not in ("relative", "metric"):
        raise UnsupportedError(
            f"{config.path}: depth_estimation_type {shortened(kind)} is not supported; expected 'relative' "
            "or 'metric'"
        )
    fusion = FeatureFusionSpec(
        maps=maps(config, layers_of(backbone, stack.num_layers)),
        size=config.integer("fusion_hidden_size", 64),
        patch_size=vit.patch_size(config),
    )
    depth = DepthSpec(
        fusion,
        head_size=config.integer("head_hidden_size", 32),
        metric=kind == "metric",
        max_depth=config.number("max_depth", 1) or 1.0,
    )
    return EncoderSpec(encoder=stack, head=HeadSpec(HeadKind.DEPTH, tied=False, depth=depth))


def _backbone(config: Config) -> Config:
    """The values of the backbone's configuration, which is a DINOv2's."""
    backbone = config.table("backbone_config")
    if not backbone.values:
        backbone = backbone.replaced(**BACKBONE)
    backbone = backbone.with_defaults(hidden_size=768, num_hidden_layers=12, num_attention_heads=12)
    backbone = backbone.with_defaults(model_type="dinov2", reshape_hidden_states=True)
    backbone.expect(model_type="dinov2", reshape_hidden_states=False)
    return backbone


def layers_of(backbone: Config, count: int) -> list[int]:
    """The layers whose states are read, by out_indices, else by out_features: stage3 is that of 3 layers."""
    stages = ["stem", *(f"stage{layer}" for layer in range(1, count + 1))]
    named = backbone.strings("out_features")
    unknown = [name for name in named if name not in stages]
    values = backbone.values.get("out_indices")
    indices = values if isinstance(values, list) else [count]
    if unknown or not all(type(index) is int and -count - 1 <= index <= count for index in indices):
        raise CheckpointError(
            f"{backbone.path}: out_features {shortened(named)} and out_indices {shortened(indices)}; "
            f"expected layers of {count}"
        )
    layers = [index % (count + 1) for index in indices]
    if values is None and named:
        layers = [stages.index(name) for name in named]
    if layers != sorted(set(layers)) or layers[-1] != count:
        raise UnsupportedError(
            f"{backbone.path}: states of the layers {layers} of {count} are not supported; expected rising "
            "ones, the last layer among them"
        )
    return layers


def maps(config: Config, layers: list[int]) -> tuple[FeatureMapSpec, ...]:
    """The map of each layer that is read, by neck_hidden_sizes and reassemble_factors."""
    sizes, factors = config.integers("neck_hidden_sizes"), config.numbers("reassemble_factors")
    if not len(layers) == len(sizes) == len(factors):
        raise CheckpointError(
            f"{config.path}: neck_hidden_sizes has {len(sizes)} numbers and reassemble_factors "
            f"{len(factors)}, expected {len(layers)}, one for each layer that is read"
        )
    if factors != FACTORS:
        raise UnsupportedError(
            f"{config.path}: reassemble_factors {shortened(factors)} is not supported; expected {FACTORS}"
        )
    return tuple(
        FeatureMapSpec(layer, size, float(factor))
        for layer, size, factor in zip(layers, sizes, factors, strict=True)
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers: the backbone's, the neck's, the head's."""
    assert isinstance(spec.head.neck, FeatureFusionSpec)
    rules = backbone_rules(spec)
    rules |= neck_rules(len(spec.head.neck.maps), "neck")
    for part, source in (("halve", "conv1"), ("convolve", "conv2"), ("project", "conv3")):
        rules[f"head.{part}.*"] = f"head.{source}.*"
    unread = "neck.fusion_stage.layers.0.residual_layer1.*"  # of the coarsest map, which is added to none
    return Table(rules, NAMING, ("backbone.embeddings.mask_token", unread))


def backbone_rules(spec: EncoderSpec) -> Rules:
    """The encoder of a DINOv2 as a backbone."""
    rules = dinov2.table(spec).rules
    return {
        key: taken(rule).renamed(lambda name: f"backbone.{name}")
        for key, rule in rules.items()
        if key.startswith("encoder.")
    }


def neck_rules(count: int, source: str) -> Rules:
    """The convolutions of `count` maps and of their fusions, of which the coarsest is stored first."""
    rules: Rules = {}
    for number in range(count):
        ours, theirs = f"head.neck.maps.{number}", f"{source}.reassemble_stage.layers.{number}"
        rules |= {f"{ours}.{part}.*": f"{theirs}.{name}.*" for part, name in NAMES.items()}
        rules[f"{ours}.convolve.weight"] = f"{source}.convs.{number}.weight"
        ours, theirs = f"head.neck.fusions.{number}", f"{source}.fusion_stage.layers.{count - 1 - number}"
        rules[f"{ours}.project.*"] = f"{theirs}.projection.*"
        for unit, layer in (("add", "residual_layer1"), ("refine", "residual_layer2")):
            rules[f"{ours}.{unit}.first.*"] = f"{theirs}.{layer}.convolution1.*"
            rules[f"{ours}.{unit}.second.*"] = f"{theirs}.{layer}.convolution2.*"
    return rules


NAMES = {"project": "projection", "resize": "resize"}
