"""DPT (Ranftl et al. 2021): depth from the states of a ViT's layers, each with its class token."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import depth_anything, vit
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import ClassReadout, DepthSpec, EncoderSpec, HeadKind, HeadSpec, SignalStackSpec

TASKS = {"depth-estimation": ("DPTForDepthEstimation",)}
NAMING = Naming("dpt.")
PATCH = 16  # pixels that the maps and the head double to
REFUSED = {"DPTForSemanticSegmentation": "its head for labels of pixels is not supported"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; images are squares of the checkpoint's size."""
    config = config.with_defaults(image_size=384, reassemble_factors=depth_anything.FACTORS)
    config = config.with_defaults(neck_hidden_sizes=[96, 192, 384, 768], backbone_out_indices=[2, 5, 8, 11])
    _check_backbone(config)
    config.expect(head_in_index=-1, add_projection=False)
    config.expect(use_batch_norm_in_fusion_residual=False, use_bias_in_fusion_residual=True)
    high, wide = vit.image_size(config)
    if vit.patch_size(config) != PATCH or high != wide or high % (2 * PATCH):
        raise UnsupportedError(
            f"{config.path}: images of {high} by {wide} pixels in patches of {vit.patch_size(config)} are "
            f"not supported; expected squares of an even number of patches of {PATCH}"
        )
    stack = vit.spec(config, "image-feature-extraction", names).encoder
    assert isinstance(stack, SignalStackSpec)
    readout = config.text("readout_type", "project")
    if readout not in list(ClassReadout):
        raise UnsupportedError(
            f"{config.path}: readout_type {shortened(readout)} is not supported; expected "
            f"{', '.join(ClassReadout)}"
        )
    activation = config.activation("hidden_act", "gelu")
    maps = depth_anything.maps(config, _layers(config, stack.num_layers))
    depth = DepthSpec(
        maps=tuple(replace(one, readout=ClassReadout(readout), activation=activation) for one in maps),
        fused_size=config.integer("fusion_hidden_size", 256),
        head_size=32,
        patch_size=PATCH,
    )
    stack = replace(stack, final_norm=None)
    return EncoderSpec(encoder=stack, head=HeadSpec(HeadKind.DEPTH, tied=False, depth=depth))


def _check_backbone(config: Config) -> None:
    """Raise UnsupportedError where the encoder is another model, or has convolutions before it."""
    for key in ("is_hybrid", "backbone_config", "backbone"):
        value = config.values.get(key)
        if value is not None and value is not False:
            raise UnsupportedError(
                f"{config.path}: {key}={shortened(value)} is not supported; expected none: DPT's own ViT"
            )


def _layers(config: Config, count: int) -> list[int]:
    """The layers whose outputs are read: backbone_out_indices counts them from 0."""
    indices = config.values["backbone_out_indices"]
    if not isinstance(indices, list) or not all(
        type(index) is int and 0 <= index < count for index in indices
    ):
        raise CheckpointError(
            f"{config.path}: backbone_out_indices {shortened(indices)}; expected layers of {count}, from 0"
        )
    if indices != sorted(set(indices)) or indices[-1:] != [count - 1]:
        raise UnsupportedError(
            f"{config.path}: backbone_out_indices {shortened(indices)} of {count} layers are not supported; "
            "expected rising ones, the last layer among them"
        )
    return [index + 1 for index in indices]


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers: the ViT's, the neck's, the head's."""
    assert spec.head.depth is not None
    base = vit.table(spec)
    rules: Rules = {key: rule for key, rule in base.rules.items() if key.startswith("encoder.")}
    rules |= depth_anything.neck_rules(len(spec.head.depth.maps), "neck")
    for number in range(len(spec.head.depth.maps)):
        source = f"neck.reassemble_stage.readout_projects.{number}.0"
        rules[f"head.neck.maps.{number}.readout.*"] = f"{source}.*"
    for part, place in (("halve", 0), ("convolve", 2), ("project", 4)):
        rules[f"head.{part}.*"] = f"head.head.{place}.*"
    unread = "neck.fusion_stage.layers.0.residual_layer1.*"  # of the coarsest map, which is added to none
    return Table(rules, NAMING, ("layernorm.*", "pooler.*", unread))
